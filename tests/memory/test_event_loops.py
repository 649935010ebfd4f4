"""A memory over many event loops: each has a store of its own, which ends with it."""

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.agents import ADA, model_of, texts
from tests.support.waiting import until, wait_until

from recollect import Agent, Memory, StorageError, Store, open_store
from recollect.errors import StorageUnavailableError, WrongOwnerError
from recollect.storage.opening import sqlite_path

HANDLES = Path("/proc/self/fd")


def has_log(url: str) -> bool:
    """Whether a SQLite file has its log beside it, which goes when the last connection is closed."""
    return Path(f"{sqlite_path(url)}-wal").exists()


def asyncio_run(agent: Agent) -> bool:
    """Run a turn as programs do."""
    return asyncio.run(agent.generate("hi", **ADA)).saved


def bare_loop(agent: Agent) -> bool:
    """Run a turn on a loop that is closed without any of what `asyncio.run` does at the end."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(agent.generate("hi", **ADA)).saved
    finally:
        loop.close()


def sync_agent(agent: Agent) -> bool:
    """Run a turn in a thread of the agent's that is ended again."""
    saved = agent.sync.generate("hi", **ADA).saved
    agent.sync.close()
    return saved


@pytest.mark.usefixtures("only_own_garbage")
@pytest.mark.skipif(not HANDLES.exists(), reason="counts open files as Linux shows them")
@pytest.mark.parametrize("run", [asyncio_run, bare_loop, sync_agent])
def test_nothing_stays_open_when_event_loops_end(sqlite_url: str, run: Callable[[Agent], bool]) -> None:
    """Fifteen loops on one memory leave hardly more files and threads open than one."""
    agent = Agent(model_of("ok"), memory=Memory(sqlite_url))
    files: list[int] = []
    threads: list[int] = []
    for _ in range(15):
        assert run(agent)
        gc.collect()
        files.append(len(list(HANDLES.iterdir())))
        threads.append(threading.active_count())
    # SQLite keeps a file for the next connection where the last one ended while another was still open.
    assert files[-1] < files[1] + 7
    wait_until(lambda: threading.active_count() <= threads[1] + 1)


@pytest.mark.anyio
async def test_store_is_closed_when_nobody_has_the_memory_any_more(sqlite_url: str) -> None:
    """A memory that is let go of closes what it has opened, without waiting for the loop's end."""
    memory = Memory(sqlite_url)
    await memory.add_message("user", "hi", **ADA)
    assert has_log(sqlite_url)
    del memory
    gc.collect()
    await until(lambda: not has_log(sqlite_url))


@pytest.mark.usefixtures("only_own_garbage")
@pytest.mark.parametrize("moments", range(8))
@pytest.mark.parametrize("engine", ["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def test_nobody_complains_when_a_memory_is_forgotten_and_its_loop_ends(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, engine: str, moments: int
) -> None:
    """The end of the loop may cancel the closing of the store, also before it began."""
    url = request.getfixturevalue(engine)

    async def save_and_leave() -> None:
        memory = Memory(url)
        await memory.add_message("user", "hi", **ADA)
        del memory
        gc.collect()
        for _ in range(moments):
            await asyncio.sleep(0)

    asyncio.run(save_and_leave())
    gc.collect()
    assert caplog.messages == []


def test_memory_in_memory_says_so_when_another_loop_uses_it() -> None:
    """What was kept in memory is gone with its loop, which is an error and not an empty history."""
    memory = Memory()
    agent = Agent(model_of("ok"), memory=memory)
    assert asyncio.run(agent.generate("hi")).saved
    for _ in range(2):
        with pytest.raises(WrongOwnerError, match="give it the URL of a file or a server"):
            asyncio.run(agent.generate("hi"))
    with pytest.raises(WrongOwnerError):
        asyncio.run(memory.get_messages())


@pytest.mark.anyio
async def test_memory_can_be_used_again_when_it_was_closed(sqlite_url: str) -> None:
    """Closing lets go of the store, and the next call opens another."""
    memory = Memory(sqlite_url)
    for number in range(2):
        await memory.add_message("user", f"{number}", **ADA)
        await memory.close()
    await memory.close()
    assert [text for _, text in texts(await memory.get_messages(**ADA))] == ["0", "1"]
    await memory.close()


@pytest.mark.anyio
async def test_store_that_was_given_stays_open_when_the_memory_is_closed(sqlite_url: str) -> None:
    """Whoever opened a store closes it."""
    async with open_store(sqlite_url) as store:
        memory = Memory(store, resource_id="ada", threads=["t1"])
        await memory.list_threads()
        await memory.close()
        assert [thread.id for thread in await Memory(store, resource_id="ada").list_threads()] == ["t1"]


@pytest.mark.anyio
async def test_opening_is_tried_again_when_it_failed(tmp_path: Path) -> None:
    """A store that cannot be opened now may be later; callers at once share one attempt."""
    memory = Memory(f"sqlite:///{tmp_path}/later/store.db", threads=["a"], resource_id="ada")
    outcomes = await asyncio.gather(*(memory.list_threads() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, StorageError) for outcome in outcomes)
    (tmp_path / "later").mkdir()
    assert [thread.id for thread in await memory.list_threads()] == ["a"]
    await memory.close()


@pytest.mark.anyio
async def test_entering_fails_when_the_store_cannot_be_opened(tmp_path: Path) -> None:
    """A wrong path is an error where the program starts, for a memory, its sync side and an agent."""
    wrong, right = (
        Memory(tmp_path / "nowhere" / "m.db", user_id="ada"),
        Memory(tmp_path / "m.db", user_id="ada"),
    )
    with pytest.raises(StorageUnavailableError, match="folder does not exist"):
        async with wrong:
            raise AssertionError("it was entered")
    with pytest.raises(StorageUnavailableError), wrong.sync:
        raise AssertionError("it was entered")
    agent = Agent("offline", input_processors=[right], output_processors=[wrong])
    with pytest.raises(StorageUnavailableError):
        async with agent:
            raise AssertionError("it was entered")
    assert not wrong.is_entered
    assert not right.is_entered


@pytest.mark.anyio
async def test_ping_says_whether_the_store_can_be_used(tmp_path: Path) -> None:
    """It opens the store if need be, and raises where it cannot be opened or read."""
    async with Memory(tmp_path / "m.db", user_id="ada") as memory:
        await memory.ping()
    memory.sync.ping()
    memory.sync.close()
    with pytest.raises(StorageUnavailableError):
        await Memory(tmp_path / "nowhere" / "m.db", user_id="ada").ping()


@pytest.mark.anyio
async def test_opening_fails_again_when_a_store_that_was_given_cannot_have_its_threads(
    sqlite_url: str,
) -> None:
    """What goes wrong with the threads of a memory is said with every call."""
    store = await open_store(sqlite_url)
    await store.close()
    memory = Memory(store, resource_id="ada", threads=["a"])
    for _ in range(2):
        with pytest.raises(StorageError, match="closed"):
            await memory.list_threads()


@pytest.mark.anyio
async def test_store_is_closed_when_its_threads_cannot_be_made(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened for nothing does not stay open."""
    memory = Memory(sqlite_url, user_id="ada", threads=["a"])
    before = asyncio.all_tasks()

    async def fail(*_: object, **__: object) -> None:
        raise StorageError

    monkeypatch.setattr(Store, "create_thread", fail)
    with pytest.raises(StorageError):
        await memory.list_threads()
    assert asyncio.all_tasks() == before


@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")  # each run is one
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_memory_goes_on_when_its_loop_has_shut_its_generators_down(sqlite_url: str, kind: str) -> None:
    """Some frameworks do that before the end: nothing that was stored is lost, and more can be."""

    async def run() -> list[tuple[str, str]]:
        async with Memory(sqlite_url if kind == "file" else None, last_messages=None) as memory:
            agent = Agent(model_of("ok"), memory=memory)
            for prompt in ("a", "b"):
                assert (await agent.generate(prompt, **ADA)).saved
                await asyncio.get_running_loop().shutdown_asyncgens()
            return texts(await memory.get_messages(**ADA))

    assert asyncio.run(run()) == [("user", "a"), ("assistant", "ok"), ("user", "b"), ("assistant", "ok")]
