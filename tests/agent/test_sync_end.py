"""The thread of sync calls ends with its agent and with the program, and nothing stays half closed."""

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest
from psutil import Process
from tests.support import programs
from tests.support.agents import ADA, model_of
from tests.support.models import Halting
from tests.support.waiting import GENEROUS, wait_until

from recollect import Agent, Memory, Message, Processor, RunContext, Scope, open_store

PROGRAM = """
import gc, sys
from recollect import Agent, Memory

agent = Agent("offline", memory=Memory({url!r}, user_id="ada"))
agent.sync.generate("hi", thread_id="t")
{rest}
"""
"""A program that runs one turn and ends without closing anything."""

WARNINGS = """
import warnings
warnings.simplefilter("ignore")
warnings.simplefilter("always", ResourceWarning)
warnings.simplefilter("always", RuntimeWarning)
"""
"""Have Python say what was not closed and what was not awaited, and nothing about anybody's imports."""

ENDINGS = {
    "kept": "",
    "dropped": "del agent; gc.collect()",
    "in a stream": "events = agent.sync.stream('again', thread_id='t'); next(events)",
    "by an error": "sys.exit(7)",
    "closed": "agent.sync.close()",
    "in a cycle": "agent.itself = agent; del agent",
}


def portal_threads() -> list[threading.Thread]:
    """Return the threads of portals that run."""
    return [thread for thread in threading.enumerate() if thread.name == "recollect-portal"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_ends_quietly_and_leaves_nothing_open(tmp_path: Path, ending: str) -> None:
    """However it ends: the store is closed, which takes its log away, and nobody complains."""
    program = WARNINGS + PROGRAM.format(url=f"sqlite:///{tmp_path}/store.db", rest=ENDINGS[ending])
    done = programs.run([], tmp_path, code=program)
    assert (done.returncode, done.stderr) == (7 if ending == "by an error" else 0, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.usefixtures("only_own_garbage")
def test_the_thread_ends_with_its_agent(tmp_path: Path, sqlite_url: str) -> None:
    """Whoever makes an agent for each request and forgets it keeps no threads and no files open."""
    before = set(portal_threads())
    for _ in range(12):  # what is forgotten first, the agent or its memory, is a matter of chance
        agents = [Agent(model_of("ok"), memory=Memory(sqlite_url)) for _ in range(5)]
        assert all(agent.sync.generate("hi", **ADA).saved for agent in agents)
        assert len(set(portal_threads()) - before) == 5
        agents.clear()
        gc.collect()
        wait_until(lambda: not set(portal_threads()) - before)
        # Not by the log: of stores that close in the same moment none may be the last, who takes that away.
        assert not [file for file in Process().open_files() if Path(file.path).parent == tmp_path]


class Later(Processor):
    """Goes on after the answer."""

    id = "later"

    def __init__(self) -> None:
        """Begin with nothing done."""
        self.may_end = threading.Event()
        self.done: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Start what goes on."""
        del ctx
        self.tasks.append(asyncio.create_task(self._work()))
        return messages

    async def _work(self) -> None:
        try:
            await asyncio.to_thread(self.may_end.wait, GENEROUS)
            self.done.append("whole")
        except asyncio.CancelledError:
            self.done.append("given up")


def test_work_after_answers_is_finished_when_an_agent_is_forgotten() -> None:
    """Nobody waits for it, and nothing cuts it off."""
    later = Later()
    agent = Agent(model_of("ok"), input_processors=[later])
    agent.sync.generate("hi")
    del agent
    gc.collect()
    time.sleep(0.2)
    assert later.done == []
    later.may_end.set()
    wait_until(lambda: later.done == ["whole"])


def test_what_goes_on_is_given_up_when_an_agent_is_closed() -> None:
    """Closing ends the thread now."""
    later = Later()
    agent = Agent(model_of("ok"), input_processors=[later])
    agent.sync.generate("hi")
    agent.sync.close()
    assert later.done == ["given up"]
    later.may_end.set()


def test_endless_work_of_a_forgotten_agent_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that nobody can reach any more does not stay for ever."""
    monkeypatch.setattr("recollect.concurrency.portal._MAX_FINISH_SECONDS", 0.1)
    before = set(portal_threads())
    later = Later()
    agent = Agent(model_of("ok"), input_processors=[later])
    agent.sync.generate("hi")
    del agent
    gc.collect()
    wait_until(lambda: later.done == ["given up"])
    wait_until(lambda: not set(portal_threads()) - before)
    later.may_end.set()


def test_a_forgotten_stream_ends_its_run_and_its_thread(sqlite_url: str) -> None:
    """The model is not asked on for somebody who is gone."""
    before = set(portal_threads())
    model = Halting("one ", "two ")
    events = Agent(model, memory=Memory(sqlite_url)).sync.stream("a", **ADA)
    assert next(events).text == "one "
    del events
    gc.collect()
    wait_until(lambda: model.open == 0)
    wait_until(lambda: not set(portal_threads()) - before)


@pytest.mark.parametrize("writes", [0, 1, 100])
@pytest.mark.parametrize("moments", range(1, 5))
def test_store_is_closed_when_the_end_of_the_loop_cancels_its_closing(
    tmp_path: Path, moments: int, writes: int
) -> None:
    """Whether that had begun or not: no connection stays open, and a write is there whole or not at all."""
    path = tmp_path / "store.db"
    tasks: list[asyncio.Task[object]] = []

    async def write_and_leave() -> None:
        store = await open_store(f"sqlite:///{path}")
        for number in range(writes):
            turn = [Message("user", f"{number}"), Message("assistant", "ok")]
            tasks.append(asyncio.create_task(store.append_turn(turn, scope=Scope(None, "ada", "t"))))
        tasks.append(asyncio.create_task(store.close()))
        for _ in range(moments):
            await asyncio.sleep(0)

    async def read() -> int:
        async with open_store(f"sqlite:///{path}") as store:
            return len(await store.last_messages(None, scope=Scope(None, "ada", "t")))

    asyncio.run(write_and_leave())
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.db"]
    assert asyncio.run(read()) % 2 == 0
