"""A tool's failure is the tool's: the model is told, the log and the trace have it, and every run goes on."""

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from tests.support.agents import Mode, answer, both_modes, model_of

from recollect import Agent, Memory, PIIDetector, Result, ToolCall, ToolResult

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


def parse() -> str:
    """Parse a command line that is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int)
    return str(parser.parse_args(["--number", "x"]))


async def leave() -> str:
    """Exit, in an async tool."""
    raise SystemExit(3)


class SilentError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def silent() -> str:
    """Raise an error without a text."""
    raise SilentError


def long_error() -> str:
    """Raise an error with more text than a message can have."""
    raise ValueError("x" * 40_000_000)


def close_generator() -> str:
    """Raise what closes generators."""
    raise GeneratorExit


async def cancel() -> str:
    """Await something that was cancelled."""
    raise asyncio.CancelledError


def large_int() -> int:
    """Return an int with more digits than Python writes."""
    return 7**6000


def line_breaks() -> str:
    """Return text that is twice as long in JSON."""
    return "\n" * 20_000_000


class Order(BaseModel):
    """Something with a number."""

    number: int


def wrong_inside() -> str:
    """Fail at validating something of its own."""
    return str(Order.model_validate({"number": "none"}))


def cyclic() -> list[object]:
    """Return a list that contains itself."""
    items: list[object] = []
    items.append(items)
    return items


FAILURES: dict[str, tuple[Callable[[], object], str]] = {
    "sync exit": (parse, "The tool failed: SystemExit: 2"),
    "async exit": (leave, "The tool failed: SystemExit: 3"),
    "no text": (silent, "The tool failed: SilentError: (its text cannot be read)"),
    "long text": (long_error, f"The tool failed: ValueError: {'x' * 985}..."),
    "generator exit": (close_generator, "The tool failed: GeneratorExit"),
    "cancelled inside": (cancel, "The tool failed: CancelledError"),
    "large int": (
        large_int,
        "The tool's answer is not JSON that can be stored: InvalidArgumentError: result",
    ),
    "too long": (line_breaks, "at most 16,777,216 are allowed"),
    "validation of its own": (wrong_inside, "The tool failed: ValidationError"),
    "cyclic": (cyclic, "The tool's answer is not JSON that can be stored: ValueError"),
}


def told(result: Result) -> ToolResult:
    """Return the tool result of a run with one call."""
    return next(part for message in result.messages for part in message.tool_results)


@both_modes
@pytest.mark.parametrize(("tool", "problem"), FAILURES.values(), ids=FAILURES.keys())
async def test_model_is_told_and_the_turn_is_stored_when_a_tool_fails(
    mode: Mode, tool: Callable[[], object], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The model gets the class and a short text; log and trace name the run, the tool and the error."""
    caplog.set_level(logging.WARNING, "recollect")
    async with Memory() as memory:
        agent = Agent(
            model_of(ToolCall("c", tool.__name__, {}), "I see.", mode=mode), tools=[tool], memory=memory
        )
        result = await answer(agent, mode, "go")
    found = told(result)
    assert (result.text, result.saved, found.is_error) == ("I see.", True, True)
    assert problem in str(found.content)
    assert len(str(found.content)) < 1100
    record = next(record for record in caplog.records if "failed" in record.getMessage())
    assert f"run {result.run_id}: the tool {tool.__name__} failed (call c)" in record.getMessage()
    entry = result.trace.find(f"tool {tool.__name__}", "tool_call")
    assert entry is not None
    assert entry.error is not None
    assert str(found.content).removesuffix("...")[:900] in entry.error


async def test_others_are_served_when_a_tool_exits() -> None:
    """An exit in one user's tool leaves the event loop and the runs of others alone."""
    started = asyncio.Event()

    async def wait() -> str:
        """Wait for the other user's failure."""
        started.set()
        await failed
        return "still here"

    other_agent = Agent(model_of(ToolCall("w", "wait"), "fine"), tools=[wait])
    failing = Agent(model_of(ToolCall("c", "leave"), "done"), tools=[leave])
    failed: Awaitable[Any] = asyncio.ensure_future(_after(started, failing))
    other = await other_agent.generate("hi")
    assert (told(other).content, (await failed).text) == ("still here", "done")


async def _after(started: asyncio.Event, agent: Agent) -> Result:
    await started.wait()
    return await agent.generate("go")


def interrupt() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


async def interrupt_later() -> str:
    """Interrupt, in an async tool."""
    raise KeyboardInterrupt


async def read_all(agent: Agent) -> None:
    """Read a stream to its end."""
    async for _ in agent.stream("go"):
        pass


WAYS: dict[str, Callable[[Agent], object]] = {
    "generate": lambda agent: asyncio.run(agent.generate("go")),
    "stream": lambda agent: asyncio.run(read_all(agent)),
    "sync generate": lambda agent: agent.sync.generate("go"),
    "sync stream": lambda agent: [*agent.sync.stream("go")],
}


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("tool", [interrupt, interrupt_later])
def test_interrupt_ends_the_run_when_a_tool_raises_it(
    tool: Callable[[], object], run: Callable[[Agent], object]
) -> None:
    """Ctrl-C is the user's, not the tool's: it reaches the caller, and the agent can be used again."""
    agent = Agent(model_of(ToolCall("c", tool.__name__), "done"), tools=[tool])
    with pytest.raises(KeyboardInterrupt):
        run(agent)
    run(agent)


async def test_rejected_call_is_in_the_trace_without_its_arguments() -> None:
    """A call that does not fit is the model's mistake: the trace says so and quotes nothing of it."""

    def count(number: int) -> int:
        """Count."""
        return number

    agent = Agent(model_of(ToolCall("c", "count", {"number": CARD}), "ok"), tools=[count])
    result = await agent.generate("go")
    entry = result.trace.find("tool count", "tool_call")
    assert entry is not None
    assert entry.notes == ["the call was rejected: its name or its arguments are wrong"]
    assert CARD not in str(result.trace)


@both_modes
@pytest.mark.parametrize("strategy", ["redact", "block"])
async def test_stored_call_stays_as_guarded_when_the_tool_changes_its_arguments(
    mode: Mode, strategy: Literal["redact", "block"], sqlite_url: str
) -> None:
    """A tool may write into what it was given; no guard has seen that, so nobody else may see it."""

    def charge(customer: dict[str, Any]) -> str:
        """Charge a customer."""
        customer["cards"].append(CARD)
        return "charged"

    call = ToolCall("c1", "charge", {"customer": {"name": "Ada", "cards": []}})
    guards = [PIIDetector(strategy)]
    async with Memory(sqlite_url, resource_id="ada", tenant_id=1) as memory:
        agent = Agent(
            model_of(call, "Done.", mode=mode),
            memory=memory,
            tools=[charge],
            input_processors=guards,
            output_processors=guards,
        )
        result = await answer(agent, mode, "Charge Ada.")
        stored = await memory.get_messages()
        again = await agent.generate("Again?")
    for messages in (result.messages, stored, result.prompt, again.prompt):
        assert [part.arguments for message in messages for part in message.tool_calls] == [call.arguments]
        assert CARD not in repr([message.parts for message in messages])


@both_modes
async def test_stored_result_stays_when_the_tool_changes_what_it_returned(mode: Mode) -> None:
    """A tool that keeps a reference to its answer and goes on filling it changes only its own object."""
    rows: list[dict[str, Any]] = [{"names": ["Ada"]}]

    def find() -> list[dict[str, Any]]:
        """Return rows that are kept."""
        return rows

    def add() -> str:
        """Add to a row that was returned."""
        rows[0]["names"].append(CARD)
        return "added"

    async with Memory() as memory:
        model = model_of(ToolCall("1", "find"), ToolCall("2", "add"), "Done.", mode=mode)
        await answer(Agent(model, memory=memory, tools=[find, add]), mode, "go")
        stored = await memory.get_messages()
    for messages in (stored, model.shown[-1]):
        results = [part.content for message in messages for part in message.tool_results]
        assert results == [[{"names": ["Ada"]}], "added"]


async def test_call_is_rejected_when_its_arguments_cannot_be_written_as_json() -> None:
    """An int with too many digits in a call is told to the model; the turn is stored without it."""

    def count(number: int) -> int:
        """Count."""
        return number

    async with Memory() as memory:
        model = model_of(ToolCall("c", "count", {"number": 7**6000}), "ok")
        result = await Agent(model, tools=[count], memory=memory).generate("go")
    assert result.saved
    assert told(result).content == "The arguments do not fit: they are not a JSON object."
