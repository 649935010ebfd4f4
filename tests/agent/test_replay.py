"""A run that was committed is not run again: its id brings back what was stored."""

import subprocess
import sys

import pytest
from tests.support.agents import (
    ADA,
    CALL,
    Mode,
    answer,
    both_modes,
    dump,
    events_of,
    lookup,
    model_of,
    streamed_text,
    texts,
)
from tests.support.models import never

from recollect import Agent, Memory, Message, ToolCall
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@both_modes
async def test_stored_turn_is_returned_when_a_run_is_sent_again(sqlite_url: str, mode: Mode) -> None:
    """The model is asked once; text and messages are the first ones, tools and all."""
    async with Memory(sqlite_url) as memory:
        model = model_of(["Let me see.", CALL], "It means pong.", mode=mode)
        agent = Agent(model, tools=[lookup], memory=memory)
        prompt = [Message("user", "what is ping?", id="from-client")]
        first = await answer(agent, mode, prompt, run_id="r1", **ADA)
        before = dump(sqlite_url)
        again = await answer(Agent(never, memory=memory), mode, prompt, run_id="r1", **ADA)
        assert dump(sqlite_url) == before
    assert (again.text, again.run_id, again.saved) == (first.text, "r1", True)
    assert [(m.id, m.role, m.body) for m in again.messages] == [
        (m.id, m.role, m.body) for m in first.messages
    ]
    assert len(model.shown) == 2


@both_modes
async def test_messages_of_a_result_are_those_that_are_stored(sqlite_url: str, mode: Mode) -> None:
    """What a result calls the turn is what memory gives back, times included."""
    async with Memory(sqlite_url) as memory:
        agent = Agent(model_of(CALL, "pong", mode=mode), tools=[lookup], memory=memory)
        result = await answer(agent, mode, "what is ping?", **ADA)
        assert result.messages == await memory.get_messages(**ADA)


async def test_stream_of_a_stored_run_is_its_text_and_its_end(sqlite_url: str) -> None:
    """A replayed stream has the text and `done`."""
    async with Memory(sqlite_url) as memory:
        await Agent(model_of("hello"), memory=memory).generate("hi", run_id="r1", **ADA)
        events = await events_of(Agent(never, memory=memory), "hi", run_id="r1", **ADA)
    assert [event.type for event in events] == ["text", "done"]
    assert streamed_text(events) == "hello"


PROGRAM = """
import asyncio, os, sys
from recollect import Agent, Memory
from recollect.testing import ScriptedModel

async def main():
    agent = Agent(ScriptedModel("said before the crash"), memory=Memory(sys.argv[1]))
    result = await agent.generate("hi", run_id="r1", resource_id="ada", thread_id="t1")
    os._exit(0 if result.saved else 1)

asyncio.run(main())
"""


@both_modes
async def test_stored_turn_is_returned_when_the_process_was_lost(sqlite_url: str, mode: Mode) -> None:
    """Another process that ended without closing anything has stored the run."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, sqlite_url], check=False, timeout=120)  # noqa: ASYNC221 - nothing else runs here
    assert done.returncode == 0
    async with Memory(sqlite_url) as memory:
        again = await answer(Agent(never, memory=memory), mode, "hi", run_id="r1", **ADA)
    assert again.text == "said before the crash"


@both_modes
async def test_run_of_another_user_is_not_returned(sqlite_url: str, mode: Mode) -> None:
    """The same run id under another user is another run."""
    async with Memory(sqlite_url) as memory:
        agent = Agent(model_of("for ada", "for bob", mode=mode), memory=memory)
        await answer(agent, mode, "hi", run_id="r1", **ADA)
        other = await answer(agent, mode, "hi", run_id="r1", **(ADA | {"resource_id": "bob"}))
    assert other.text == "for bob"


@pytest.mark.parametrize(
    ("first", "second"), [("job:1", "job"), ("job", "job:1"), ("r1", "r10"), ("r1", "r1;")]
)
async def test_runs_are_distinct_when_one_id_begins_with_the_other(
    sqlite_url: str, first: str, second: str
) -> None:
    """Ids may be built from each other, and the runs be in different threads."""
    async with Memory(sqlite_url) as memory:
        agent = Agent(model_of(f"of {first}", f"of {second}"), memory=memory)
        await agent.generate("hi", run_id=first, resource_id="ada", thread_id="t1")
        await agent.generate("hi", run_id=second, resource_id="ada", thread_id="t2")
        replayed = Agent(never, memory=memory)
        for run_id, thread_id in ((first, "t1"), (second, "t2")):
            again = await replayed.generate("hi", run_id=run_id, resource_id="ada", thread_id=thread_id)
            assert again.text == f"of {run_id}"


@both_modes
async def test_blocked_run_can_be_sent_again(sqlite_url: str, mode: Mode) -> None:
    """A run that stored nothing runs again under its id."""
    async with Memory(sqlite_url) as memory:
        failing = Agent(ScriptedModel([RuntimeError("down")]), memory=memory)
        with pytest.raises(RuntimeError, match="down"):
            await answer(failing, mode, "hi", run_id="r1", **ADA)
        result = await answer(Agent(model_of("up", mode=mode), memory=memory), mode, "hi", run_id="r1", **ADA)
        stored = await memory.get_messages(**ADA)
    assert result.text == "up"
    assert texts(stored) == [("user", "hi"), ("assistant", "up")]


async def test_runs_without_an_id_are_never_the_same(sqlite_url: str) -> None:
    """Two equal prompts are two turns."""
    async with Memory(sqlite_url) as memory:
        agent = Agent(model_of("one", "two"), memory=memory)
        results = [await agent.generate("hi", **ADA) for _ in range(2)]
        stored = await memory.get_messages(**ADA)
    assert results[0].run_id != results[1].run_id
    assert [message.text for message in stored] == ["hi", "one", "hi", "two"]


async def test_many_turns_of_one_run_id_keep_their_tool_ids_apart(sqlite_url: str) -> None:
    """A model that starts the numbers of its calls again in every turn is shown each with its own result."""
    calls = [ToolCall("call-0", "lookup", {"word": word}) for word in ("a", "b")]
    async with Memory(sqlite_url) as memory:
        model = model_of(calls[0], "A.", calls[1], "B.")
        agent = Agent(model, tools=[lookup], memory=memory)
        await agent.generate("a?", **ADA)
        await agent.generate("b?", **ADA)
    results = [result.content for message in model.shown[-1] for result in message.tool_results]
    assert results == ["a means pong", "b means pong"]
