"""Embedding in the background: it blocks nothing, loses nothing, and restores nothing deleted."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.embedders import Broken, Held, Words
from tests.support.waiting import until

from recollect import Agent, EmbedderError, Memory, Message, Scope, Store
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import MESSAGES_AT_ONCE
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.opening import StoreHandle
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "default")


def memory_of(store: Store, embedder: object) -> Memory:
    """Return ada's memory."""
    return Memory(store, tenant_id=None, resource_id="ada", semantic_recall=True, embedder=embedder)


@pytest.fixture
async def held(store: Store) -> AsyncGenerator[tuple[Memory, Held]]:
    """A memory on each engine in turn whose embedder waits for permission to continue."""
    embedder = Held()
    async with memory_of(store, embedder) as memory:
        yield memory, embedder


async def embedded(store: Store) -> int:
    """Count ada's messages that have vectors."""
    return len((await store.search_rows(scope=ADA)).vectors)


def others() -> list[asyncio.Task[object]]:
    """Return all tasks except the current one."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_saving_does_not_wait_for_the_embedder(store: Store, held: tuple[Memory, Held]) -> None:
    """A message is saved, and found by its words, while the embedder still works on it."""
    memory, embedder = held
    await memory.add_message("user", "The cello is in the attic.")
    await embedder.reached.wait()
    assert [hit.text for hit in await memory.query("cello")] == ["The cello is in the attic."]
    assert await embedded(store) == 0
    embedder.go_on.set()
    await memory.settled()
    assert await embedded(store) == 1
    (hit,) = await memory.query("cello", explain=True)
    assert hit.why is not None
    assert hit.why.vector_score is not None


Removal = Callable[[Memory, Store], Awaitable[object]]

REMOVALS: dict[str, Removal] = {
    "erase": lambda _, store: store.erase(scope=ADA),
    "delete messages": lambda memory, _: memory.delete_messages(["secret"]),
    "delete thread": lambda memory, _: memory.delete_thread("default"),
}


@pytest.mark.parametrize("removal", REMOVALS)
async def test_deleted_message_stays_deleted_when_it_was_being_embedded(
    store: Store, held: tuple[Memory, Held], removal: str
) -> None:
    """A message deleted while the embedder works on it is in no search row and in no result."""
    memory, embedder = held
    await memory.save_messages([Message("user", "The secret is a cello.", id="secret")])
    assert len(await memory.query("cello")) == 1
    await embedder.reached.wait()
    await REMOVALS[removal](memory, store)
    embedder.go_on.set()
    await memory.settled()
    rows = await store.search_rows(scope=ADA)
    assert (rows.rows, rows.vectors) == ([], [])
    assert len(await memory.query("cello")) == 0


async def test_erased_messages_stay_erased_when_the_user_returns_at_once(
    store: Store, held: tuple[Memory, Held]
) -> None:
    """A user who is erased and writes again while the embedder works has only the new message."""
    memory, embedder = held
    await memory.add_message("user", "The secret is a cello.")
    await embedder.reached.wait()
    await store.erase(scope=ADA)
    await memory.add_message("user", "I like trains.")
    embedder.go_on.set()
    await memory.settled()
    assert await embedded(store) == 1
    assert [hit.text for hit in await memory.query("What about the cello, or trains?")] == ["I like trains."]


async def test_the_others_are_embedded_when_one_is_deleted_meanwhile(
    store: Store, held: tuple[Memory, Held]
) -> None:
    """A deletion makes the batch void, so the other messages are embedded again."""
    memory, embedder = held
    await memory.save_messages([Message("user", f"Message {n}.", id=f"m{n}") for n in range(3)])
    await embedder.reached.wait()
    await memory.delete_messages(["m1"])
    embedder.go_on.set()
    await memory.settled()
    assert await embedded(store) == 2


@pytest.mark.parametrize("count", [1, MESSAGES_AT_ONCE, 2 * MESSAGES_AT_ONCE + 1])
async def test_all_messages_have_vectors_when_settled(store: Store, count: int) -> None:
    """However many there are, each is embedded once."""
    embedder = Words()
    async with memory_of(store, embedder) as memory:
        await memory.save_messages([Message("user", f"Message {n}.") for n in range(count)])
        await memory.settled()
        await memory.add_message("assistant", "And one more.")
        await memory.settled()
        assert await embedded(store) == count + 1
        assert len(embedder.read) == count + 1


async def test_every_user_is_served_when_many_save_at_once(store: Store) -> None:
    """Twenty users who save concurrently all get their vectors."""
    async with memory_of(store, Words()) as memory:
        users = [f"user {n}" for n in range(20)]
        await asyncio.gather(
            *(memory.add_message("user", f"I am {user}.", resource_id=user) for user in users)
        )
        await memory.settled()
        for user in users:
            assert len((await store.search_rows(scope=Scope(None, user))).vectors) == 1


async def test_turn_of_an_agent_is_embedded_when_it_was_saved(store: Store) -> None:
    """The question and the answer of a run get vectors without a search."""
    async with memory_of(store, Words()) as memory:
        await Agent(ScriptedModel("It is in the attic."), memory=memory).generate("Where is it?")
        await memory.settled()
        assert await embedded(store) == 2


async def test_settled_raises_the_error_of_the_embedder(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """It is raised once and logged; the next search embeds the messages."""
    embedder = Broken(documents=True)
    async with memory_of(store, embedder) as memory:
        with caplog.at_level(logging.WARNING, "recollect"):
            await memory.add_message("user", "The cello is in the attic.")
            with pytest.raises(EmbedderError, match="no route to the embedder"):
                await memory.settled()
        assert "messages wait for their vectors" in caplog.text
        await memory.settled()
        embedder.documents = False
        assert len(await memory.query("cello")) == 1
        await memory.settled()
        assert await embedded(store) == 1


async def test_settled_raises_nothing_when_the_embedder_recovered_meanwhile(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A later success clears an earlier error."""
    embedder = Broken(documents=True)
    async with memory_of(store, embedder) as memory:
        await memory.add_message("user", "The cello is in the attic.")
        await until(lambda: "messages wait for their vectors" in caplog.text)
        embedder.documents = False
        await memory.add_message("user", "The violin too.")
        await memory.settled()
        assert await embedded(store) == 2


async def test_no_task_is_left_when_closed_while_embedding(store: Store) -> None:
    """Closing stops the task, and the next memory embeds the messages."""
    embedder = Held()
    memory = memory_of(store, embedder)
    before = others()
    await memory.add_message("user", "The cello is in the attic.")
    await embedder.reached.wait()
    assert len(others()) > len(before)
    await memory.close()
    assert others() == before
    assert await embedded(store) == 0
    async with memory_of(store, Words()) as later:
        assert len(await later.query("cello")) == 1
        await later.settled()
        assert await embedded(store) == 1


async def test_memory_works_again_when_it_was_closed(store: Store) -> None:
    """A memory that was closed opens itself again."""
    memory = memory_of(store, Words())
    for count in (1, 2):
        await memory.add_message("user", "The cello is in the attic.")
        await memory.settled()
        assert await embedded(store) == count
        await memory.close()


async def test_no_database_is_made_when_an_unused_memory_settles_and_closes(tmp_path: Path) -> None:
    """Nothing was saved and nothing searched, so nothing is opened."""
    memory = Memory(f"sqlite:///{tmp_path}/never.db", semantic_recall=True)
    assert Agent(ScriptedModel("hi"), memory=memory)
    await memory.settled()
    await memory.close()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - nobody is held up


async def test_wordless_messages_are_not_looked_for_at_every_search(sqlite_url: str) -> None:
    """A message without a word never gets a vector, so it must not start the indexer each time."""
    async with Memory(sqlite_url, semantic_recall=True, embedder=Words(), resource_id="ada") as memory:
        await memory.add_message("user", "The cello is in the attic.")
        await memory.add_message("user", "\U0001f600")
        await memory.settled()
    handle = StoreHandle(sqlite_url)
    recaller = Recaller(handle, as_embedder(Words()))
    assert len(await recaller.search("cello", RecallSettings(top_k=1), scope=ADA)) == 1
    assert not recaller._indexers  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nothing else shows it
    await handle.close()


async def test_memory_of_a_user_is_embedded_by_its_segments_when_long(store: Store) -> None:
    """A long message has a vector for each segment, and comes back as the segment that matches."""
    filler = "Nothing of note happened on that day, and so the diary goes on. " * 30
    text = f"{filler}\n\nThe cello is in the attic.\n\n{filler}"
    async with memory_of(store, Words(dimensions=256)) as memory:
        await memory.add_message("user", text)
        await memory.settled()
        (hit,) = await memory.query("cello attic")
    assert hit.segment is not None
    assert "The cello is in the attic." in hit.text
    assert hit.text == text[slice(*hit.segment)]
    assert len(hit.text) <= 1_000 < len(hit.message.text)


async def test_two_recallers_on_one_store_can_embed_the_same_messages(store: Store) -> None:
    """Both finish without an error, and each message has one vector."""
    await store.append_turn([Message("user", f"Message {n}.") for n in range(50)], scope=ADA)
    both = [Recaller(StoreHandle(store), as_embedder(Words())) for _ in range(2)]
    for recaller in both:
        recaller.schedule_indexing(ADA, store)
    await asyncio.gather(*(recaller.wait_until_idle() for recaller in both))
    assert await embedded(store) == 50
