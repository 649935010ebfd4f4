"""The methods of `Memory`, on every engine."""

import asyncio
import sys
import warnings
from typing import Any

import pytest
from tests.support.agents import Mode, answer, both_modes, model_of, texts

from recollect import (
    PER_CALL,
    Agent,
    InvalidArgumentError,
    Memory,
    MemoryNotFoundError,
    Message,
    Store,
    open_store,
)
from recollect.errors import StoreMisuseError
from recollect.recall.embedding import embedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(store: Store) -> Memory:
    """A memory of one user on each engine in turn."""
    return Memory(store, tenant_id=None, resource_id="ada")


def make_messages(count: int) -> list[Message]:
    """Return numbered messages of the user."""
    return [Message("user", f"message {index}", id=f"m{index}") for index in range(count)]


async def test_unknown_thread_is_empty_when_read(memory: Memory) -> None:
    """Reading what is not there gives nothing, and makes nothing."""
    assert await memory.get_messages(thread_id="nowhere") == []
    assert await memory.remember_messages(thread_id="nowhere") == []
    assert await memory.get_thread_by_id("nowhere") is None
    assert await memory.list_threads() == []


async def test_messages_are_kept_in_order_when_saved(memory: Memory) -> None:
    """`save_messages` returns what is stored, system messages included."""
    saved = await memory.save_messages([Message("system", "be kind", id="s"), *make_messages(2)])
    assert [message.id for message in saved] == ["s", "m0", "m1"]
    assert [message.position for message in saved] == [1, 2, 3]
    assert await memory.get_messages() == saved
    assert [message.id for message in await memory.get_messages(2)] == ["m0", "m1"]
    assert await memory.save_messages([]) == []


async def test_thousands_of_messages_are_returned_when_saved_at_once(memory: Memory) -> None:
    """A save that succeeds does not end with an error about its size."""
    saved = await memory.save_messages(make_messages(1001))
    assert len(saved) == len(await memory.get_messages()) == 1001


async def test_message_is_returned_when_added(memory: Memory) -> None:
    """`add_message` appends one message to the user's thread `default`."""
    added = await memory.add_message("assistant", "hello")
    assert (added.role, added.text, added.thread_id) == ("assistant", "hello", "default")


async def test_wrong_messages_are_refused_when_saved(memory: Memory) -> None:
    """What is no message, or has an id twice, is refused whole."""
    for bad in ([{"role": "user", "content": "x"}], [make_messages(1)[0], make_messages(1)[0]], ["text"]):
        with pytest.raises(InvalidArgumentError):
            await memory.save_messages(bad)  # pyright: ignore[reportArgumentType] - a wrong use
    assert await memory.get_messages() == []


async def test_last_messages_and_named_ones_are_remembered(memory: Memory) -> None:
    """`remember_messages` takes the end of the thread, and others by id with their neighbours."""
    await memory.save_messages(make_messages(20))
    assert [m.id for m in await memory.remember_messages()] == [f"m{n}" for n in range(10, 20)]
    assert [m.id for m in await memory.remember_messages(2)] == ["m18", "m19"]
    found = await memory.remember_messages(2, include=["m5", "m18"], with_previous=1, with_next=1)
    assert [m.id for m in found] == ["m4", "m5", "m6", "m17", "m18", "m19"]


async def test_messages_are_gone_when_deleted(memory: Memory) -> None:
    """Messages are deleted by id or by themselves; the count is of what is gone."""
    saved = await memory.save_messages(make_messages(4))
    assert await memory.delete_messages(["m0", saved[2], "unknown"]) == 2
    assert [message.id for message in await memory.get_messages()] == ["m1", "m3"]


async def test_thread_has_a_title_when_made_by_a_message(memory: Memory) -> None:
    """A thread's title defaults to `New Conversation`."""
    await memory.add_message("user", "hi", thread_id="t1")
    thread = await memory.get_thread_by_id("t1")
    assert thread is not None
    assert (thread.title, thread.message_count, thread.user_id) == ("New Conversation", 1, "ada")


async def test_threads_can_be_made_changed_listed_and_deleted(memory: Memory) -> None:
    """The life of a thread."""
    made = await memory.create_thread(thread_id="t1", title="Boats", metadata={"a": 1})
    again = await memory.create_thread(thread_id="t1", title="Cars")
    assert (made.title, again.title) == ("Boats", "Boats")
    saved = await memory.save_thread(thread_id="t1", title="Cars")
    changed = await memory.update_thread(thread_id="t1", metadata={"b": 2})
    assert (saved.title, changed.title) == ("Cars", "Cars")
    assert changed.metadata["b"] == 2
    await memory.save_thread(thread_id="t2", title="Trains")
    assert {thread.id for thread in await memory.list_threads()} == {"t1", "t2"}
    assert len(await memory.list_threads(limit=1, offset=1)) == 1
    assert await memory.delete_thread("t1")
    assert not await memory.delete_thread(thread_id="t1")
    with pytest.raises(MemoryNotFoundError):
        await memory.update_thread(thread_id="t1", title="x")


async def test_threads_are_made_when_given_to_the_memory(store: Store) -> None:
    """`threads=` are created if they are missing, and left alone if not."""
    first = Memory(store, tenant_id=None, resource_id="ada", threads=["a", "b"])
    await first.save_thread(thread_id="a", title="Mine")
    second = Memory(store, tenant_id=None, resource_id="ada", threads=["a", "c"])
    assert {(t.id, t.title) for t in await second.list_threads()} == {
        ("a", "Mine"),
        ("b", "New Conversation"),
        ("c", "New Conversation"),
    }


@pytest.mark.parametrize("recalls", [True, False])
async def test_store_is_open_when_a_memory_is_prepared(store: Store, recalls: bool) -> None:  # noqa: FBT001 - a case
    """With recall its embedder is loaded too; then the first use waits for neither."""
    memory = Memory(store, user_id="ada", semantic_recall=recalls)
    await memory.prepare()
    await memory.ping()
    assert (await memory.add_message("user", "hi")).text == "hi"
    await memory.close()


async def test_threads_may_be_given_whole(store: Store) -> None:
    """A thread of another memory keeps its title and metadata."""
    source = Memory(user_id="ada")
    made = await source.save_thread(thread_id="a", title="Mine", metadata={"tags": ["x"]})
    copy = Memory(store, user_id="ada", threads=[made, "b"])
    found = {thread.id: (thread.title, thread.metadata) for thread in await copy.list_threads()}
    assert found == {"a": ("Mine", {"tags": ["x"]}), "b": ("New Conversation", {})}


async def test_users_do_not_see_each_other(store: Store) -> None:
    """Another user's thread of the same name is another thread; tenants and apps are apart too."""
    memory = Memory(store, tenant_id=PER_CALL, user_id="ada")
    await memory.add_message("user", "mine", thread_id="t", tenant_id=None)
    apart: list[dict[str, Any]] = [
        {"resource_id": "bob"},
        {"tenant_id": 7},
        {"app_id": "other"},
        {"project_id": "p"},
    ]
    for other in apart:
        ids: dict[str, Any] = {"tenant_id": None} | other
        assert await memory.get_messages(thread_id="t", **ids) == []
        assert await memory.delete_messages(["m0"], thread_id="t", **ids) == 0
        assert not await memory.delete_thread(thread_id="t", **ids)


async def test_memory_can_be_closed_and_a_given_store_stays_open(store: Store) -> None:
    """A memory closes what it opened, and only that; closing an unused one is no error."""
    async with Memory(store, user_id="ada") as memory:
        await memory.add_message("user", "hi")
    assert store.engine_name
    await Memory(store, user_id="x").add_message("user", "still open")
    await Memory().close()


def test_private_memory_belongs_to_one_loop() -> None:
    """Data that is only in memory cannot be seen from another event loop, and that is said."""
    memory = Memory()

    async def add() -> None:
        await memory.add_message("user", "hi")

    asyncio.run(add())
    with pytest.raises(StoreMisuseError, match="belongs to another event loop"):
        asyncio.run(add())


def test_memory_on_a_file_works_in_one_loop_after_the_other(sqlite_url: str) -> None:
    """A memory on a file may be used by several loops; each opens a store of its own."""
    memory = Memory(sqlite_url, resource_id="ada")

    async def add() -> int:
        try:
            await memory.add_message("user", "hi")
            return len(await memory.get_messages())
        finally:
            await memory.close()

    assert [asyncio.run(add()) for _ in range(3)] == [1, 2, 3]


@both_modes
async def test_agent_works_when_a_thread_alone_is_named(mode: Mode) -> None:
    """A memory in memory without a user keeps a run's thread under the user of its own."""
    async with open_store("sqlite://") as store:
        memory = Memory(store)
        await answer(Agent(model_of("ok", mode=mode), memory=memory), mode, "hi", thread_id="t")
        assert texts(await memory.get_messages(thread_id="t")) == [("user", "hi"), ("assistant", "ok")]
        assert await Memory(store).get_messages(thread_id="t") == []


async def test_unknown_id_is_an_error_that_names_it(memory: Memory) -> None:
    """A misspelt id is not passed over."""
    with pytest.raises(InvalidArgumentError, match="session"):
        await memory.get_messages(session="x")  # pyright: ignore[reportCallIssue] - a wrong use


async def test_a_question_finds_what_was_said_in_any_thread_or_in_one(store: Store) -> None:
    """`query` searches all of the user's threads, or with `within="thread"` only the one that is named."""
    memory = Memory(store, tenant_id=None, resource_id="ada", embedder=None)
    await memory.add_message("user", "My dog is called Rex.", thread_id="march")
    await memory.add_message("user", "My cat is called Tom.", thread_id="april")
    assert [hit.text for hit in await memory.query("dog Rex", message_range=0)] == ["My dog is called Rex."]
    here = await memory.query("called", within="thread", thread_id="april", message_range=0)
    assert [hit.text for hit in here] == ["My cat is called Tom."]


async def test_deleting_needs_the_id_of_what_is_deleted(memory: Memory) -> None:
    """No thread is deleted because nobody named one."""
    await memory.add_message("user", "hi")
    for call in (memory.delete_thread, memory.delete_messages):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            await call()  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues] - a wrong use
    with pytest.raises(InvalidArgumentError, match="thread_id"):
        await memory.delete_thread(None)  # pyright: ignore[reportArgumentType] - a wrong use
    assert len(await memory.get_messages()) == 1


def test_sync_code_has_the_same_memory(sqlite_url: str) -> None:
    """`memory.sync` keeps what the async side reads, and closes what it opened."""
    memory = Memory(sqlite_url, user_id="ada")
    with memory.sync as entered:
        entered.add_message("user", "hi")
        assert memory.is_entered

    async def read() -> list[Message]:
        async with memory:
            async with memory:  # who leaves first takes nothing away
                pass
            return await memory.get_messages()

    assert texts(asyncio.run(read())) == [("user", "hi")]


class TestWithoutTheExtraEmbed:
    """`Memory(semantic_recall=True)` where the packages of the built-in embedder are missing."""

    @pytest.fixture(autouse=True)
    def _hide_packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hide a package as Python itself does, and forget that somebody was warned."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        embedder._warn_of_words_alone.cache_clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it warns once

    async def test_message_is_stored_once_and_found_by_words_when_it_is_added(self) -> None:
        """One warning, and no error."""
        async with Memory(semantic_recall=True) as memory:
            with pytest.warns(UserWarning, match="words alone"):
                await memory.add_message("user", "My dog Rex is afraid of thunder.")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                await memory.add_message("user", "Hello.")
            assert len(await memory.get_messages()) == 2
            assert (await memory.query("thunder"))[0].text == "My dog Rex is afraid of thunder."

    async def test_nothing_is_stored_when_warnings_are_errors(self) -> None:
        """A call that raises has written nothing, so that it can be tried again."""
        async with Memory(semantic_recall=True) as memory:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(3):
                    with pytest.raises(UserWarning):
                        await memory.add_message("user", "Hello.")
            assert await memory.get_messages() == []
