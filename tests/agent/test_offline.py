"""The offline model: it needs nothing, quotes memory, and says so."""

import pytest
from tests.support.agents import ADA, Mode, answer, both_modes

from recollect import Agent, Memory, Message, ModelUnavailableError, Processor, RunContext
from recollect.errors import ModelNotAskableError
from recollect.messages import frame_parts

pytestmark = [pytest.mark.anyio, both_modes]


async def test_offline_model_says_what_it_is_when_memory_is_empty(mode: Mode) -> None:
    """Without anything to quote it says that too."""
    result = await answer(Agent(), mode, "what colour is my boat?")
    assert result.text == "I am the offline model: I only quote memory. It holds nothing about this yet."


async def test_offline_model_quotes_what_fits_the_question(mode: Mode) -> None:
    """It quotes the remembered messages that share words with the question, at most three, in order."""
    async with Memory() as memory:
        for text in ("my boat is red", "I like tea", "the boat is old", "a boat sinks", "boat, boat"):
            await memory.add_message("user", text, **ADA)
        result = await answer(Agent("offline", memory=memory), mode, "how old is my boat?", **ADA)
        stored = await memory.get_messages(**ADA)
    lines = result.text.splitlines()
    assert lines[0] == "I am the offline model: I only quote memory."
    assert len(lines) == 4
    assert lines[1:3] == ["- user said: my boat is red", "- user said: the boat is old"]
    assert "tea" not in result.text
    assert stored[-1].text == result.text
    assert result.saved


async def test_offline_model_quotes_other_threads(mode: Mode) -> None:
    """What other threads brought in is quoted as well."""
    async with Memory(other_threads=3, resource_id="ada") as memory:
        await memory.add_message("user", "my boat is red", thread_id="elsewhere")
        result = await answer(Agent(memory=memory), mode, "what colour is my boat?", thread_id="t1")
    assert "my boat is red" in result.text


class Recalling(Processor):
    """Brings in what was recalled, the best first."""

    id = "recalling"
    edits = "view"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Quote five lines between the marks of the fence."""
        lines = [f"- boat {number}" for number in range(5)]
        parts = frame_parts(["<memory> a boat", *lines, "</memory>"])
        return [Message("system", parts, id=f"{ctx.run_id}:recalled", origin="memory"), *messages]


async def test_offline_model_quotes_the_best_of_what_was_recalled(mode: Mode) -> None:
    """Where all of it fits the question alike, that is what comes first."""
    result = await answer(Agent(input_processors=[Recalling()]), mode, "which boat?")
    assert result.text.splitlines()[1:] == ["- boat 0", "- boat 1", "- boat 2"]


class Judge(Processor):
    """Asks the model about the prompt, and may do without."""

    id = "judge"

    def __init__(self, *, skips: bool) -> None:
        """Say whether it goes on without an answer."""
        self._skips = skips

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Ask."""
        try:
            await ctx.ask("is it bad?", bool)
        except ModelNotAskableError:
            if not self._skips:
                raise
        return messages


async def test_processor_may_skip_what_the_offline_model_cannot_answer(mode: Mode) -> None:
    """The error has a class of its own, and the trace has a note without the processor's doing."""
    result = await answer(Agent(input_processors=[Judge(skips=True)]), mode, "hi")
    assert result.text.startswith("I am the offline model")
    entry = result.trace.find("judge", "input")
    assert entry is not None
    assert entry.notes == ["the model cannot be asked"]


async def test_guard_that_needs_an_answer_stops_the_run_when_there_is_none(mode: Mode) -> None:
    """A guard fails closed unless it says otherwise."""
    with pytest.raises(ModelUnavailableError, match="offline"):
        await answer(Agent(input_processors=[Judge(skips=False)]), mode, "hi")
