"""The sync side of every async class: the same names, parameters and docstrings, known to type checkers."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest
from tests.support.agents import model_of, texts
from tests.support.configurations import write_config

from recollect import Agent, EngineLoader, Event, Hit, InvalidArgumentError, Memory, Message, Result, Thread
from recollect.agent.agent import SyncAgent
from recollect.concurrency.sync_face import SyncFace
from recollect.memory.sync import SyncMemory
from recollect.runtime.loader import AgentRuntime, SyncAgentRuntime
from recollect.runtime.loop import AgentLoop, AgentRunResult, SyncAgentLoop
from recollect.users import SyncUsers, Users

FACES: list[tuple[type, type[SyncFace[Any]]]] = [
    (Agent, SyncAgent),
    (Memory, SyncMemory),
    (Users, SyncUsers),
    (AgentLoop, SyncAgentLoop),
    (AgentRuntime, SyncAgentRuntime),
]
PLUMBING = {"call", "note", "events_of"}
"""What a face has for its own methods."""


def _methods(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def _parameters(method: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - any callable
    return list(inspect.signature(method).parameters.values())


@pytest.mark.parametrize(("kind", "face"), FACES)
def test_both_sides_have_the_same_methods(kind: type, face: type) -> None:
    """What is async on one side, or a stream, is there on the other, with the same parameters and words."""
    ours, theirs = _methods(kind), _methods(face)
    awaited = {name for name, method in ours.items() if inspect.iscoroutinefunction(method)}
    assert awaited | ({"stream"} & ours.keys()) <= theirs.keys()
    for name in theirs.keys() - PLUMBING:
        assert _parameters(theirs[name]) == _parameters(ours[name]), name
        assert not inspect.iscoroutinefunction(theirs[name])
        if name != "close":
            assert inspect.getdoc(theirs[name]) == inspect.getdoc(ours[name])


def test_a_checker_knows_the_sync_side_of_an_agent_and_its_memory() -> None:
    """Arguments and values have the types of the async side; both share what is kept in memory."""
    memory = Memory(user_id="ada", embedder=None)
    with Agent(model_of("hello", "again"), memory=memory).sync as agent:
        assert_type(agent, SyncAgent)
        result = agent.generate("hi", thread_id="t", raise_on_tripwire=True)
        assert_type(result, Result)
        events = agent.stream("and?", thread_id="t", save_partial=True)
        assert_type(events, Iterator[Event])
        assert [event.type for event in events][-1] == "done"
        said = memory.sync.get_messages(thread_id="t")
        assert_type(said, list[Message])
        assert [text for _, text in texts(said)] == ["hi", "hello", "and?", "again"]
        thread = memory.sync.get_thread_by_id("t", user_id="ada")
        assert_type(thread, Thread | None)
        hit = memory.sync.query("hello", within="thread", thread_id="t", top_k=1, threshold=0)[0]
        assert_type(hit, Hit)
        with pytest.raises(TypeError):
            memory.sync.delete_thread()  # pyright: ignore[reportCallIssue] - deleting needs its id
        with pytest.raises(InvalidArgumentError, match="session"):
            agent.generate("hi", session="t")  # pyright: ignore[reportCallIssue] - not an id
        with pytest.raises(TypeError):
            agent.generate("hi", 5)  # type: ignore[misc] # pyright: ignore[reportCallIssue] - one too many


def test_a_checker_knows_the_sync_side_of_users(tmp_path: Path) -> None:
    """A store, its URL or a path may be given; entering opens it, and leaving closes it."""
    with Users(tmp_path / "users.db").sync as users:
        number = users.add_message("ada", "user", "hi", tenant_id=1)
        assert_type(number, int)
        assert users.count_messages("ada", tenant_id=1) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["users.db"]


def test_a_checker_knows_the_sync_side_of_a_runtime(tmp_path: Path) -> None:
    """A program without an event loop runs sessions, and leaves nothing open."""
    with EngineLoader(write_config(tmp_path, {})).load().sync as runtime:
        result = runtime.loop.run("The door code is 4711.", "s1")
        assert_type(result, AgentRunResult)
        assert result.saved
        events = runtime.loop.stream("What is the door code?", "s1", run_id="r2")
        assert_type(events, Iterator[Event])
        assert [event.type for event in events][-1] == "done"
        runtime.wait_until_idle()
        assert runtime.status()["user_id"] == "local"
    assert not list(tmp_path.rglob("*-wal"))
