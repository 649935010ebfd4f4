"""Invalid output of models and tools: the run goes on, and the model gets an error."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from tests.support.agents import ADA, Mode, answer, both_modes, model_of, texts

from recollect import Agent, Memory, Message, ToolCall
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, both_modes]


def calling(name: str, arguments: str, call_id: str = "c1") -> FunctionModel:
    """Return a model that calls a tool once, just so, and then says something."""
    asked: list[int] = []

    async def respond(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        asked.append(1)
        if len(asked) == 1:
            yield {0: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}
        else:
            yield "fine"

    return FunctionModel(stream_function=respond)


def results_in(messages: list[Message]) -> list[str]:
    """Return what tools gave back, errors only."""
    return [str(result.content) for m in messages for result in m.tool_results if result.is_error]


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '{"a": NaN'])
async def test_no_tool_is_run_when_its_arguments_are_no_json(mode: Mode, arguments: str) -> None:
    """A tool that takes any keyword is not handed our own words for a broken call."""
    ran: list[dict[str, str]] = []

    def anything(**words: str) -> str:
        """Take whatever comes."""
        ran.append(words)
        return "ran"

    result = await answer(Agent(calling("anything", arguments), tools=[anything]), mode, "hi")
    assert ran == []
    assert result.text == "fine"
    assert results_in(result.messages) == ["The arguments do not fit: they are not a JSON object."]


@pytest.mark.parametrize("name", ["", "x" * 600, "na\0me", "\ud800", "ä" * 400])
async def test_model_gets_an_error_when_it_calls_a_tool_of_an_invalid_name(mode: Mode, name: str) -> None:
    """A name that cannot be stored is made one; the run goes on, and the turn is kept."""
    async with Memory() as memory:
        agent = Agent(ScriptedModel([ToolCall("c1", name, {}), "fine"]), memory=memory)
        result = await answer(agent, mode, "hi", **ADA)
        stored = await memory.get_messages(**ADA)
    assert (result.text, result.saved) == ("fine", True)
    assert "There is no tool" in results_in(stored)[0]


async def test_call_is_answered_when_its_id_is_longer_than_any_of_ours(mode: Mode) -> None:
    """The result carries the id under which the call is kept and shown."""
    async with Memory() as memory:
        result = await answer(Agent(calling("nothing", "{}", "i" * 900), memory=memory), mode, "hi", **ADA)
    call, answered = result.messages[1], result.messages[2]
    assert call.tool_calls[0].id == answered.tool_results[0].call_id
    assert result.saved


async def test_tool_that_ends_in_a_cancellation_of_its_own_has_failed(mode: Mode) -> None:
    """A tool whose inner task was cancelled is a failed tool, and not a cancelled run."""

    async def impatient() -> str:
        """Wait for something that is given up."""
        task = asyncio.create_task(asyncio.sleep(9))
        task.cancel()
        await task
        return "never"

    result = await answer(
        Agent(model_of(ToolCall("c", "impatient", {}), "fine"), tools=[impatient]), mode, "q"
    )
    assert result.text == "fine"
    assert results_in(result.messages)[0].startswith("The tool failed")


async def test_answer_is_cut_when_no_message_could_hold_it(mode: Mode) -> None:
    """An answer of 33 MiB ends where a message does, and is kept as it was given."""
    async with Memory() as memory:
        model = ScriptedModel(["ö" * (33 * 1024 * 512)], chunk_size=1024 * 1024)
        result = await answer(Agent(model, memory=memory), mode, "hi", **ADA)
        stored = await memory.get_messages(**ADA)
    assert (len(result.text), result.finish_reason, result.saved) == (8 * 1024 * 1024, "length", True)
    assert stored[-1].text == result.text


async def test_run_that_is_cancelled_still_ends_in_a_cancellation_when_a_tool_waits(mode: Mode) -> None:
    """Only a tool's own cancellation is its failure."""
    started = asyncio.Event()

    async def patient() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(model_of(ToolCall("c", "patient", {}), "fine"), tools=[patient])
    task = asyncio.create_task(answer(agent, mode, "hi"))
    await started.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert texts(agent.get_last_messages()) == []
