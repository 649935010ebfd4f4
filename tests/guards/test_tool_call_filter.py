"""The tool call filter hides calls and results of earlier turns from the model, never from the store."""

from typing import Any

import pytest
from tests.support.agents import CALL, Mode, answer, both_modes, lookup, model_of
from tests.support.contexts import context, new_run

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    Message,
    TextPart,
    ToolCall,
    ToolCallFilterProcessor,
    ToolResult,
)

pytestmark = pytest.mark.anyio


def pair(call_id: str, name: str, text: str = "") -> list[Message]:
    """Return a call and its result, as a thread holds them."""
    words = [TextPart(text)] if text else []
    return [
        Message("assistant", [*words, ToolCall(call_id, name, {})], origin="memory"),
        Message("tool", [ToolResult(call_id, name, "found")], origin="memory"),
    ]


@both_modes
async def test_model_does_not_see_calls_of_earlier_turns(mode: Mode) -> None:
    """In the turn itself it does, and the store has both turns whole."""
    async with Memory() as memory:
        model = model_of(CALL, "It means pong.", CALL, "As I said.", mode=mode)
        agent = Agent(model, tools=[lookup], memory=memory, input_processors=[ToolCallFilterProcessor()])
        await answer(agent, mode, "What is ping?")
        result = await answer(agent, mode, "Again?")
        saved = await memory.get_messages()
    assert [message.role for message in model.shown[2]] == ["user", "assistant", "user"]
    assert [message.role for message in model.shown[3]] == ["user", "assistant", "user", "assistant", "tool"]
    assert [message.role for message in saved] == ["user", "assistant", "tool", "assistant"] * 2
    entry = result.trace.find("tool-call-filter", "input")
    assert entry is not None
    assert entry.notes == ["hid 2 tool calls and results from the model"]


async def test_only_named_tools_are_hidden() -> None:
    """The others stay, text beside a hidden call stays, and a result goes with its call."""
    view = [
        *pair("1", "secret", "Let me see."),
        *pair("2", "open"),
        *pair("1", "open"),
        Message("user", "now"),
    ]
    after = await ToolCallFilterProcessor(["secret"]).process_input(view, context(new_run()))
    assert [message.text for message in after] == ["Let me see.", "", "", "", "", "now"]
    assert after[1:] == view[2:]


async def test_result_goes_with_its_call_whatever_it_is_called() -> None:
    """A result that names another tool is still the answer to its call."""
    view = [
        Message("assistant", [ToolCall("1", "secret", {})], origin="memory"),
        Message("tool", [ToolResult("1", "other", "found")], origin="memory"),
        Message("user", "now"),
    ]
    after = await ToolCallFilterProcessor({"secret"}).process_input(view, context(new_run()))
    assert after == view[2:]


async def test_present_turn_is_shown_as_it_is() -> None:
    """What a client's own tool gave back in this turn reaches the model."""
    view = [message.replace(origin="input") for message in pair("1", "look")]
    view = [Message("user", "old", origin="memory"), *pair("0", "look"), Message("user", "look"), *view]
    after = await ToolCallFilterProcessor().process_input(view, context(new_run()))
    assert after == [view[0], *view[3:]]


async def test_nothing_is_hidden_when_no_tool_is_named() -> None:
    """An empty list of names is not the same as none."""
    view = [*pair("1", "look"), Message("user", "now")]
    assert await ToolCallFilterProcessor([]).process_input(view, context(new_run())) == view


@pytest.mark.parametrize("exclude", ["look", 5, [5], [""]])
def test_names_are_checked_at_construction(exclude: Any) -> None:  # noqa: ANN401 - anything a caller may pass
    """One text is not a list of names."""
    with pytest.raises(InvalidArgumentError, match="exclude"):
        ToolCallFilterProcessor(exclude)
