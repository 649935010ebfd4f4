"""An agent closes the memory that it was given, unless somebody else has entered that."""

from collections.abc import Awaitable, Callable

import pytest
from tests.support.agents import model_of

from recollect import Agent, Memory

pytestmark = pytest.mark.anyio


class Watched(Memory):
    """A memory that counts how often it was closed."""

    closed = 0

    async def close(self) -> None:
        """Count, and close."""
        self.closed += 1
        await super().close()


def _agent(memory: Memory) -> Agent:
    return Agent(model_of("ok"), memory=memory)


async def test_an_agent_closes_its_memory_when_it_is_left() -> None:
    """`async with agent` is enough; a memory in both lists and beside them is closed once."""
    memory = Watched()
    async with Agent(model_of("ok"), input_processors=[memory], output_processors=[memory]) as agent:
        assert (await agent.generate("hi")).saved
        assert memory.closed == 0
    assert memory.closed == 1


async def test_the_last_of_two_agents_closes_their_memory() -> None:
    """The first to leave takes nothing away from the other."""
    memory = Watched()
    async with _agent(memory) as first:
        await first.generate("hi")
        async with _agent(memory) as second:
            await second.generate("hi")
        assert memory.closed == 0
        await first.generate("hi")
        assert len(await memory.get_messages()) == 6
    assert memory.closed == 1


async def _leave(agent: Agent) -> None:
    async with agent:
        await agent.generate("hi")


async def _close(agent: Agent) -> None:
    await agent.generate("hi")
    await agent.close()


@pytest.mark.parametrize("end", [_leave, _close])
async def test_a_memory_that_somebody_has_entered_stays_open(end: Callable[[Agent], Awaitable[None]]) -> None:
    """Whoever wrote `async with memory` closes it."""
    memory = Watched()
    async with memory:
        await end(_agent(memory))
        assert memory.closed == 0
        assert len(await memory.get_messages()) == 2
    assert memory.closed == 1


async def test_closing_an_agent_closes_a_memory_that_nobody_has_entered() -> None:
    """Without `async with` anywhere, `close` does it."""
    memory = Watched()
    await _close(_agent(memory))
    assert memory.closed == 1
    await Agent(model_of("ok")).close()


def test_sync_agents_share_a_memory_in_the_same_way() -> None:
    """The last of two closes it, and the thread of the calls ends with that."""
    memory = Watched()
    with _agent(memory).sync as first:
        with _agent(memory).sync as second:
            assert second.generate("hi").saved
        assert memory.closed == 0
        assert first.generate("hi").saved
        assert len(memory.sync.get_messages()) == 4
    assert memory.closed == 1


def test_a_memory_that_sync_code_has_entered_stays_open() -> None:
    """Closing an agent takes nothing away from it."""
    memory = Watched()
    with memory.sync as entered:
        agent = _agent(memory)
        agent.sync.generate("hi")
        agent.sync.close()
        assert memory.closed == 0
        assert len(entered.get_messages()) == 2
    assert memory.closed == 1
    agent.sync.close()
