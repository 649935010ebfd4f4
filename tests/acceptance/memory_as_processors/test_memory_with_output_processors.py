"""Document A, "Test: Output Processor Ordering": `Memory with Output Processors`."""

import pytest
from tests.acceptance.memory_as_processors.agents import leak_rules, tell_story
from tests.memory.profiles import note_email
from tests.support.agents import ADA, Mode, answer, both_modes, model_of, texts

from recollect import Agent, Memory, PIIDetector, Store
from recollect.text.tokens import count_tokens

pytestmark = [pytest.mark.anyio, both_modes]


async def test_pii_redacted_before_saving_to_memory(store: Store, mode: Mode) -> None:
    """The user's own message and the answer are kept with the address masked, and shown so."""
    memory, model = Memory(store, **ADA), model_of("I wrote to john@example.com today.", mode=mode)
    agent = Agent(model, output_processors=[PIIDetector(strategy="redact"), memory])
    result = await answer(agent, mode, "My email is john@example.com")
    assert texts(await memory.get_messages()) == [
        ("user", "My email is ***@***.***"),
        ("assistant", "I wrote to ***@***.*** today."),
    ]
    assert result.text == "I wrote to ***@***.*** today."
    assert model.shown[0][-1].text == "My email is john@example.com"


async def test_token_limit_applied_before_persistence(store: Store, mode: Mode) -> None:
    """What is kept has at most a hundred tokens, and is what was shown."""
    result, saved = await tell_story(store, mode, 100)
    assert 90 <= count_tokens(saved.content) <= 100
    assert saved.content == result.text


async def test_system_prompt_leaks_cleaned_before_saving(store: Store, mode: Mode) -> None:
    """The saved message has the mark, and nothing of the instructions."""
    _, saved = await leak_rules(store, mode)
    assert saved.content == "My instructions are: [REDACTED]."


async def test_working_memory_extracted_from_clean_output(store: Store, mode: Mode) -> None:
    """Working memory learns from what left the guard, in every version that is kept of it."""
    memory = Memory(
        store, working_memory={"template": "User email: {{user_email}}", "extractor": _note}, **ADA
    )
    agent = Agent(
        model_of("Noted: the email is john@example.com.", mode=mode),
        output_processors=[PIIDetector(strategy="redact"), memory],
    )
    await answer(agent, mode, "User's email is john@example.com")
    known = await memory.get_working_memory()
    assert known.user_email == "***@***.***"
    assert "john@" not in str(await memory.working_memory_history())


def _note(said: str, current: dict[str, object]) -> dict[str, object]:
    return {"user_email": note_email(said, current)["email"]}
