"""UnicodeNormalizer in the pipeline: the prompt, tool results, the stream, and what is kept."""

from typing import Any

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, model_of, texts
from tests.support.contexts import context, new_run

from recollect import (
    Agent,
    FilePart,
    InvalidArgumentError,
    Memory,
    Message,
    TextDelta,
    TextPart,
    ToolResult,
    UnicodeNormalizer,
)

pytestmark = pytest.mark.anyio


@both_modes
async def test_the_answer_is_shown_and_kept_in_one_form(mode: Mode) -> None:
    """Stream, result and store agree, however the model cuts its text."""
    said = " The \ufb01le\u200b is e\u0301lan \U0001f468\u200d\U0001f469 "
    async with Memory() as memory:
        agent = Agent(
            model_of(said, mode=mode, chunk_size=1), memory=memory, output_processors=[UnicodeNormalizer()]
        )
        result = await answer(agent, mode, "Where is the \ufb01le?")
        saved = await memory.get_messages()
    assert result.text == "The file is \u00e9lan \U0001f468\u200d\U0001f469"
    assert texts(saved) == [("user", "Where is the file?"), ("assistant", result.text)]


@both_modes
async def test_tool_calls_pass_and_their_results_are_cleaned(mode: Mode) -> None:
    """Texts in a tool's result lose what is hidden in them, and keep their whitespace."""

    def lookup(word: str) -> dict[str, Any]:
        """Look a word up."""
        return {"mean\u200bing": [f" {word}\u200b \ufb01ne ", 7]}

    model = model_of([CALL], "done", mode=mode)
    agent = Agent(
        model,
        memory=Memory(),
        tools=[lookup],
        input_processors=[UnicodeNormalizer()],
        output_processors=[UnicodeNormalizer()],
    )
    result = await answer(agent, mode, "look")
    assert result.text == "done"
    assert model.shown[1][-1].tool_results[0].content == {"meaning": [" ping fine ", 7]}


async def test_what_memory_brought_in_and_other_parts_are_left_alone() -> None:
    """Only texts of the caller change; a message without anything to change is the same object."""
    guard, ctx = UnicodeNormalizer(), context(new_run())
    file = FilePart("text/plain", url="https://a.example/\ufb01")
    recalled = Message("user", "\ufb01", origin="memory")
    mixed = Message("user", [TextPart("\ufb01"), file])
    plain = Message("user", "plain")
    after = await guard.process_input([recalled, mixed, plain], ctx)
    assert after[0] is recalled
    assert after[1].parts == (TextPart("fi"), file)
    assert after[2] is plain
    result = ToolResult("c", "t", {"a": 1})
    assert await guard.process_tool_result(result, ctx) is result


async def test_no_form_keeps_ligatures_and_drops_what_is_hidden() -> None:
    """Invisible characters go whatever the form is."""
    guard = UnicodeNormalizer(form=None)
    (after,) = await guard.process_input([Message("user", "\ufb01\u200b")], context(new_run()))
    assert after.text == "\ufb01"


async def test_ordinary_text_passes_a_stream_as_it_is() -> None:
    """A part that is released whole is the same part."""
    guard, ctx = UnicodeNormalizer(trim=False), context(new_run(), "stream")
    assert await guard.process_output_stream(TextDelta("a"), ctx) == []
    assert await guard.process_output_stream(TextDelta("b"), ctx) == [TextDelta("a")]
    assert await guard.process_output_stream(CALL, ctx) == [CALL]
    assert await guard.finish_output_stream(ctx) == [TextDelta("b")]
    part = TextDelta("")
    assert await guard.process_output_stream(part, ctx) == [part]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"form": "NFD"}, "form: must be one of NFKC, NFC, not 'NFD'"),
        ({"trim": 1}, "trim: must be True or False"),
        ({"collapse_whitespace": "yes"}, "collapse_whitespace: must be True or False"),
        ({"confusables": None}, "confusables: must be True or False"),
    ],
)
def test_wrong_options_are_refused_with_what_is_allowed(options: dict[str, Any], problem: str) -> None:
    """Options are checked when the guard is made."""
    with pytest.raises(InvalidArgumentError, match=problem):
        UnicodeNormalizer(**options)
