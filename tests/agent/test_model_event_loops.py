"""One HTTP model under many event loops: sync agents that share it, agents made per call, repeated runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic_ai import Agent as PlainAgent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.agent.openai_server import ChatServer
from tests.support.agents import streamed_text

from recollect import Agent, Memory, ModelError


@pytest.fixture
def model(server: ChatServer) -> OpenAIChatModel:
    """A model whose provider makes its own HTTP client, as every program has it."""
    return OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=server.url, api_key="none"))


def test_two_sync_agents_share_a_model(model: OpenAIChatModel) -> None:
    """Each has a thread and a loop of its own, and both are answered again and again."""
    with Agent(model).sync as one, Agent(model, memory=Memory()).sync as other:
        assert [agent.generate("hi").text for _ in range(3) for agent in (one, other)] == ["fine"] * 6


def test_sync_agents_share_a_model_while_one_streams(model: OpenAIChatModel) -> None:
    """A stream that waits for its reader does not hinder another agent."""
    with Agent(model).sync as one, Agent(model).sync as other:
        events = one.stream("hi")
        first = next(events)
        assert other.generate("hi").text == "fine"
        assert streamed_text([first, *events]) == "fine"


def test_agents_of_many_threads_share_a_model(model: OpenAIChatModel) -> None:
    """Requests of several loops at once go through clients of their own."""

    def run_turns(_: int) -> str:
        with Agent(model).sync as agent:
            return "".join(agent.generate("hi").text for _ in range(5))

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(run_turns, range(6))) == {"fine" * 5}


def test_agent_is_made_for_each_call(model: OpenAIChatModel) -> None:
    """An agent that ends after its call leaves the model usable."""
    for _ in range(4):
        with Agent(model).sync as agent:
            assert agent.generate("hi").text == "fine"


def keep(model: OpenAIChatModel) -> Model:
    """Return the model itself."""
    return model


def fall_back(model: OpenAIChatModel) -> Model:
    """Return a model that wraps it."""
    return FallbackModel(model, model)


@pytest.mark.parametrize("wrap", [keep, fall_back])
def test_one_agent_runs_under_repeated_asyncio_run(
    model: OpenAIChatModel, wrap: Callable[[OpenAIChatModel], Model]
) -> None:
    """Each loop is a new one, and the model is asked from each, also if another wraps it."""
    agent = Agent(wrap(model))
    for _ in range(4):
        assert asyncio.run(agent.generate("hi")).text == "fine"


def test_model_is_usable_when_others_have_closed_its_client(model: OpenAIChatModel) -> None:
    """A plain agent that is entered closes the client at its end; the next request makes another."""

    async def run() -> str:
        async with PlainAgent(model) as plain:
            await plain.run("hi")
        return (await agent.generate("hi")).text

    agent = Agent(model)
    assert asyncio.run(agent.generate("hi")).text == "fine"
    for _ in range(2):
        assert asyncio.run(run()) == "fine"


def test_requests_at_once_share_the_client_of_their_loop(model: OpenAIChatModel) -> None:
    """The first requests of a loop come before its client is there."""

    async def run() -> set[str]:
        return {result.text for result in await asyncio.gather(*(agent.generate("hi") for _ in range(5)))}

    agent = Agent(model)
    for _ in range(2):
        assert asyncio.run(run()) == {"fine"}


@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")  # each run is one
def test_loop_goes_on_when_its_generators_were_shut_down(model: OpenAIChatModel) -> None:
    """Some frameworks shut generators down before the end: the model is asked on."""

    async def run() -> str:
        await agent.generate("hi")
        await asyncio.get_running_loop().shutdown_asyncgens()
        return (await agent.generate("hi")).text

    agent = Agent(model)
    assert asyncio.run(run()) == "fine"


async def fail_on_this_loop(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
    """Fail as an HTTP client of another loop does."""
    yield "so far"
    raise RuntimeError("<asyncio.locks.Event> is bound to a different event loop")


def test_runtime_error_of_a_client_is_an_error_of_ours() -> None:
    """A client that the caller made belongs to one loop; what it raises elsewhere is a `ModelError`."""
    agent = Agent(FunctionModel(stream_function=fail_on_this_loop))
    with pytest.raises(ModelError, match="bound to a different event loop"):
        asyncio.run(agent.generate("hi"))
