"""Tools: plain functions, whose calls and results pass the guards and are kept so that they can be shown."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, dump, events_of, lookup, model_of, texts
from tests.support.guards import SsnGuard
from tests.support.waiting import GENEROUS

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    Message,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def slow_lookup(word: str) -> str:
    """Look a word up, giving way to others."""
    await asyncio.sleep(0)
    return f"{word} means pong"


def failing(word: str) -> str:
    """Fail."""
    raise OSError(f"no dictionary for {word}")


def no_json() -> object:
    """Return what JSON does not know."""
    return object()


def deep() -> object:
    """Return what is nested too deep to be kept."""
    value: object = "x"
    for _ in range(100):
        value = [value]
    return value


def odd_text() -> str:
    """Return text that no database takes."""
    return "a\0b\ud800c"


def shown_results(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the tool results that a model was shown."""
    return [result for message in messages for result in message.tool_results]


@both_modes
@pytest.mark.parametrize("tool", [lookup, slow_lookup])
async def test_result_reaches_the_model_when_a_tool_is_sync_or_async(mode: Mode, tool: object) -> None:
    """Both kinds of functions are tools, and all of the round is seen in the events."""
    name = getattr(tool, "__name__", "")
    model = model_of(ToolCall("c", name, {"word": "ping"}), "done", mode=mode)
    agent = Agent(model, tools=[tool])  # pyright: ignore[reportArgumentType] - both are functions
    result = await answer(agent, mode, "what is ping?")
    assert result.text == "done"
    assert shown_results(model.shown[1]) == [ToolResult("c", name, "ping means pong")]
    assert result.usage.requests == 2


async def test_events_come_in_order_when_a_tool_is_called() -> None:
    """Text, call, result, text, done."""
    agent = Agent(model_of(["Hm.", CALL], "Pong.", chunk_size=99), tools=[lookup])
    events = await events_of(agent, "what is ping?")
    assert [event.type for event in events] == ["text", "tool_call", "tool_result", "text", "done"]
    assert events[1].tool_call == CALL
    assert events[2].tool_result == ToolResult(CALL.id, "lookup", "ping means pong")


FAILURES = {
    "raises": (ToolCall("c", "failing", {"word": "x"}), "The tool failed: OSError: no dictionary for x"),
    "unknown": (
        ToolCall("c", "nothing", {}),
        "There is no tool 'nothing'; known: failing, no_json, deep, lookup.",
    ),
    "missing argument": (ToolCall("c", "lookup", {}), "The arguments do not fit"),
    "wrong type": (ToolCall("c", "lookup", {"word": [1]}), "The arguments do not fit"),
    "not JSON": (ToolCall("c", "no_json", {}), "The tool's answer is not JSON"),
    "too deep": (ToolCall("c", "deep", {}), "nested"),
}


@both_modes
@pytest.mark.parametrize(("call", "problem"), FAILURES.values(), ids=FAILURES.keys())
async def test_model_gets_an_error_when_a_tool_cannot_answer(
    mode: Mode, call: ToolCall, problem: str
) -> None:
    """Whatever goes wrong becomes a result, marked as an error, and the run goes on."""
    async with Memory() as memory:
        model = model_of(call, "I see.", mode=mode)
        agent = Agent(model, tools=[failing, no_json, deep, lookup], memory=memory)
        result = await answer(agent, mode, "go")
        stored = await memory.get_messages()
    found = shown_results(model.shown[1])
    assert result.text == "I see."
    assert len(found) == 1
    assert found[0].is_error
    assert problem in str(found[0].content)
    assert shown_results(stored) == found


@both_modes
async def test_text_is_cleaned_when_a_tool_returns_what_cannot_be_kept(mode: Mode) -> None:
    """NUL and lone surrogates from a tool are replaced before anybody sees them."""
    async with Memory() as memory:
        model = model_of(ToolCall("c", "odd_text", {}), "ok", mode=mode)
        result = await answer(Agent(model, tools=[odd_text], memory=memory), mode, "go")
    assert result.saved
    content = str(shown_results(model.shown[1])[0].content)
    assert content.startswith("a\ufffdb\ufffd")
    assert content.endswith("c")


@both_modes
async def test_tools_run_at_once_and_their_results_keep_the_order_of_the_calls(mode: Mode) -> None:
    """Calls of one step run side by side."""
    both = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        """Wait for the other."""
        await both.wait()
        return name

    calls = [ToolCall(f"c{name}", "meet", {"name": name}) for name in ("a", "b")]
    model = model_of(calls, "met", mode=mode)
    await answer(Agent(model, tools=[meet]), mode, "go")
    assert [result.content for result in shown_results(model.shown[1])] == ["a", "b"]


@both_modes
async def test_other_tools_are_ended_when_one_trips(mode: Mode) -> None:
    """A trip in one of several tools leaves none of the others running."""
    waiting, log = asyncio.Event(), list[str]()

    async def wait() -> None:
        """Wait for ever."""
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    async def trip() -> None:
        """Trip once the other waits."""
        await waiting.wait()
        raise TripWire("no")

    before = asyncio.all_tasks()
    agent = Agent(model_of([ToolCall("1", "wait"), ToolCall("2", "trip")], mode=mode), tools=[wait, trip])
    assert (await answer(agent, mode, "go")).tripwire
    assert log == ["ended"]
    assert asyncio.all_tasks() == before


async def test_sync_tool_does_not_block_the_loop() -> None:
    """A sync function runs in a thread of its own."""
    release, started = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> str:
        """Wait for the loop."""
        loop.call_soon_threadsafe(started.set)
        return "free" if release.wait(GENEROUS) else "blocked"

    model = model_of(ToolCall("c", "wait"), "done")
    task = asyncio.create_task(Agent(model, tools=[wait]).generate("go"))
    await started.wait()
    release.set()
    await task
    assert shown_results(model.shown[1])[0].content == "free"


@both_modes
async def test_run_ends_when_the_steps_are_used_up(mode: Mode) -> None:
    """A model that never stops calling tools is asked `max_steps` times."""
    model = model_of(CALL, mode=mode)
    result = await answer(Agent(model, tools=[lookup], max_steps=3), mode, "go")
    assert len(model.shown) == 3
    assert result.finish_reason == "tool_limit"
    assert result.tripwire is None


@both_modes
async def test_tool_sees_the_true_arguments_when_a_guard_redacts_the_kept_copy(mode: Mode) -> None:
    """Redaction changes what is shown and kept, not what the tool is given."""
    given: list[str] = []

    def check(number: str) -> str:
        """Check a number."""
        given.append(number)
        return "valid"

    async with Memory() as memory:
        model = model_of(ToolCall("c", "check", {"number": "123-45-6789"}), "ok", mode=mode)
        agent = Agent(model, tools=[check], output_processors=[SsnGuard(), memory])
        result = await answer(agent, mode, "go")
        stored = await memory.get_messages()
    assert given == ["123-45-6789"]
    for messages in (stored, result.messages):
        assert [dict(call.arguments) for m in messages for call in m.tool_calls] == [{"number": "[REDACTED]"}]


@both_modes
@pytest.mark.parametrize("side", ["input", "output"])
async def test_secret_of_a_tool_is_not_kept_when_a_guard_stands_before_memory(
    sqlite_url: str, mode: Mode, side: str
) -> None:
    """A tool's result is redacted in what is kept, whichever side the guard is on."""

    def find() -> dict[str, str]:
        """Find a number."""
        return {"number": "123-45-6789"}

    async with Memory(sqlite_url) as memory:
        guards = {f"{side}_processors": [SsnGuard()]}
        model = model_of(ToolCall("c", "find"), "found", mode=mode)
        agent = Agent(model, tools=[find], memory=memory, **guards)  # pyright: ignore[reportArgumentType] - one of the lists
        result = await answer(agent, mode, "go", **ADA)
        assert "123-45-6789" not in str(dump(sqlite_url))
    assert "123-45-6789" not in str([m.parts for m in result.messages])
    if side == "input":
        assert "123-45-6789" not in str(shown_results(model.shown[1]))


async def test_history_never_starts_with_an_orphan_tool_result() -> None:
    """However short the history is cut, a result is shown with its call or not at all."""
    for last in range(1, 5):
        async with Memory(last_messages=last) as short:
            await short.save_messages(
                [
                    Message("user", "what is ping?"),
                    Message("assistant", [CALL]),
                    Message("tool", [ToolResult(CALL.id, "lookup", "pong")]),
                    Message("assistant", "Pong."),
                ]
            )
            model = model_of("fine")
            await Agent(model, memory=short).generate("and now?")
        shown = model.shown[0]
        assert [m.role for m in shown][-2:] == ["assistant", "user"]
        assert not shown_results(shown) or any(message.tool_calls for message in shown)


@pytest.mark.parametrize("bad", [["lookup"], [5], 5, lookup, "lookup", None])
def test_tools_are_refused_at_once_when_they_are_no_list_of_functions(bad: Any) -> None:  # noqa: ANN401 - wrong uses
    """The error comes with the agent, and says what to give."""
    with pytest.raises(InvalidArgumentError, match=r"tools: .*function"):
        Agent(model_of("never said"), tools=bad)


async def test_tool_without_a_name_is_refused_before_the_model_is_asked() -> None:
    """What has no name of its own is no tool."""
    model = model_of("never said")
    with pytest.raises(InvalidArgumentError, match="tools"):
        await Agent(model, tools=[lambda: None]).generate("hi")
    assert model.shown == []


class NoSchema:
    """A type that has no JSON Schema."""


def undescribed(value: NoSchema) -> None:
    """Take something that JSON has no name for."""
    del value


async def test_tool_with_arguments_of_an_unknown_type_is_refused() -> None:
    """The error names the tool."""
    with pytest.raises(InvalidArgumentError, match="the arguments of undescribed cannot be described"):
        await Agent(model_of("never said"), tools=[undescribed]).generate("hi")


async def test_two_tools_of_one_name_are_refused() -> None:
    """A tool that another would hide is an error, not lost."""

    def other(word: str) -> str:
        """Do something else."""
        return word

    other.__name__ = "lookup"
    with pytest.raises(InvalidArgumentError, match="lookup"):
        await Agent(model_of("never said"), tools=[lookup, other]).generate("hi")


async def test_text_and_call_of_one_step_are_one_message() -> None:
    """What the model says before a call is kept with it, and the whole text has both steps."""
    async with Memory() as memory:
        agent = Agent(ScriptedModel([["Let me see. ", CALL], "Pong."]), tools=[lookup], memory=memory)
        result = await agent.generate("what is ping?")
        stored = await memory.get_messages()
    assert texts(stored) == [
        ("user", "what is ping?"),
        ("assistant", "Let me see. "),
        ("tool", ""),
        ("assistant", "Pong."),
    ]
    assert result.text == "Let me see. \nPong."
