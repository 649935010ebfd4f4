"""How far a streamed run goes on before its reader: it may read the model, and do nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.support.agents import dump

from recollect import Agent, Event, Memory, Message, RecollectError, ToolCall
from recollect.messages import is_aborted

pytestmark = pytest.mark.anyio

AHEAD = 32


class CountingModel:
    """Speaks in single letters, and counts how many were taken; before the last answer it may call a tool."""

    def __init__(self, letters: int, *, calls: int = 0, fails: bool = False) -> None:
        self.taken = 0
        self._letters, self._calls, self._fails = letters, calls, fails

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Answer."""
        del messages
        for _ in range(self._letters):
            self.taken += 1
            yield "x"
        if self._fails:
            raise OSError("the line is dead")
        if self._calls:
            self._calls -= 1
            yield ToolCall("c1", "note")


async def until_idle() -> None:
    """Let the run go on as far as it does by itself."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_model_is_read_only_so_far_ahead_of_the_reader() -> None:
    """A reader that is slow holds the model up, so that no answer piles up in memory."""
    model = CountingModel(1000)
    async with Agent(model).stream("hi") as stream:
        await anext(stream)
        await until_idle()
        assert 1 < model.taken <= AHEAD
        events = [event async for event in stream]
    assert model.taken == 1000
    assert len(events) == 1000  # the other letters, and the end


async def test_tools_run_only_when_the_reader_has_taken_all_before() -> None:
    """What has effects waits: a reader that leaves in time prevents it."""
    noted: list[str] = []

    def note() -> str:
        """Note that it ran."""
        noted.append("ran")
        return "ok"

    async with Agent(CountingModel(3, calls=1), tools=[note]).stream("hi") as stream:
        for _ in range(3):
            await anext(stream)
            await until_idle()
            assert noted == []
        assert (await anext(stream)).type == "tool_call"
        await until_idle()
        assert noted == []
        assert (await anext(stream)).type == "tool_result"
        assert noted == ["ran"]


async def test_turn_is_saved_only_when_the_reader_has_taken_all_of_it(sqlite_url: str) -> None:
    """A reader that leaves before the end has not got the answer, and what is kept is marked as aborted."""
    async with Memory(sqlite_url, user_id="ada") as memory:
        await memory.list_threads()
        before = dump(sqlite_url)["messages"]
        async with Agent(CountingModel(3), memory=memory).stream("hi") as stream:
            for _ in range(3):
                await anext(stream)
            await until_idle()
            assert dump(sqlite_url)["messages"] == before
        assert is_aborted(await memory.get_messages())


@pytest.mark.parametrize("taken", [1, 3])
async def test_exactly_what_the_reader_took_is_kept_when_it_leaves(taken: int) -> None:
    """Chunks that wait for the reader have not been seen."""
    async with Memory() as memory:
        async with Agent(CountingModel(20), memory=memory).stream("hi", save_partial=True) as stream:
            for _ in range(taken):
                await anext(stream)
            await until_idle()
        assert [message.text for message in await memory.get_messages()] == ["hi", "x" * taken]


async def test_reader_gets_what_came_before_when_the_model_fails() -> None:
    """The error comes after it, and nothing is kept: the reader has not left."""
    async with Memory() as memory:
        stream = Agent(CountingModel(5, fails=True), memory=memory).stream("hi")
        got: list[Event] = []

        async def read() -> None:
            async for event in stream:
                await until_idle()
                got.append(event)

        with pytest.raises(OSError, match="line is dead"):
            await read()
        assert await memory.get_messages() == []
    assert len(got) == 5


async def test_two_tasks_cannot_read_one_stream_at_once() -> None:
    """The second is told so, in place of hanging; the first goes on."""

    class SlowModel:
        async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
            del messages
            await asyncio.sleep(0.01)
            yield "late"

    async with Agent(SlowModel()).stream("hi") as stream:
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(RecollectError, match="two tasks read this stream at once"):
            await anext(stream)
        assert (await first).text == "late"
