"""Models that fail or cannot do what is asked, and what the caller hears of it."""

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.support.agents import CALL, events_of, lookup, model_of, streamed_text

from recollect import Agent, InvalidArgumentError, Message, ModelError, Processor, RunContext, ToolCall
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def _cannot_stream(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    raise NotImplementedError


def _refuses(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[])


class _Asker(Processor):
    id = "asker"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        await ctx.ask("Is this fine?", bool, model=FunctionModel(_refuses))
        return messages


async def test_model_that_cannot_stream_is_an_error_of_ours() -> None:
    """It is said in words, not as an assertion of the library."""
    with pytest.raises(ModelError, match="stream"):
        await Agent(FunctionModel(_cannot_stream)).generate("hello")


async def test_model_that_a_processor_asks_in_vain_is_an_error_of_ours() -> None:
    """A guard that cannot judge fails closed, with an error that can be caught."""
    agent = Agent(model_of("never said"), input_processors=[_Asker()])
    with pytest.raises(ModelError, match="processor asked"):
        await agent.generate("hello")


async def test_streamed_text_is_the_text_of_the_result_when_tools_come_between() -> None:
    """What is said after a tool round begins on a line of its own, in the stream as in the result."""
    agent = Agent(model_of(["Let me look.", CALL], "It means pong."), tools=[lookup])
    events = await events_of(agent, "what is ping?")
    result = events[-1].result
    assert result is not None
    assert streamed_text(events) == result.text == "Let me look.\nIt means pong."
    assert [message.text for message in result.messages if message.role == "assistant"] == [
        "Let me look.",
        "It means pong.",
    ]


def test_closed_agent_can_be_used_again() -> None:
    """Closing ends the thread of the sync side, and another call starts one."""
    agent = Agent(model_of("one", "two"))
    agent.sync.close()
    assert agent.sync.generate("a").text == "one"
    agent.sync.close()
    agent.sync.close()
    assert agent.sync.generate("b").text == "two"
    agent.sync.close()


@pytest.mark.parametrize(
    ("replies", "options"),
    [([], {}), ([5], {}), ([["a", 5]], {}), ("abc", {"chunk_size": -1}), ("abc", {"chunk_size": 0})],
)
async def test_scripted_model_is_refused_when_it_could_not_answer(
    replies: list[Any], options: dict[str, Any]
) -> None:
    """What is wrong with a script is said when it is written."""
    with pytest.raises(InvalidArgumentError):
        ScriptedModel(replies, **options)


async def test_scripted_model_takes_a_single_reply() -> None:
    """A text, a call, an error or a function alone is the only reply."""
    call = ToolCall("c", "missing", {})
    assert (await Agent(ScriptedModel("hi")).generate("q")).text == "hi"
    assert (await Agent(ScriptedModel(lambda shown: shown[-1].text)).generate("q")).text == "q"
    assert (await Agent(ScriptedModel(call), max_steps=1).generate("q")).messages[1].tool_calls == (call,)
    with pytest.raises(ModelError, match="down"):
        await Agent(ScriptedModel(ModelError("down"))).generate("q")
