"""A search right after a write: it embeds the newest messages first, for a moment, and says what it lacks."""

import asyncio
import time

import pytest
from tests.support.embedders import Broken, Held, Slow, Words
from tests.support.waiting import GENEROUS

from recollect import Memory, Message, Scope, Store
from recollect.recall import recaller as recaller_module
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import MESSAGES_AT_ONCE
from recollect.recall.embedding.minilm import MiniLM
from recollect.recall.recaller import CATCH_UP_SECONDS, Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.opening import StoreHandle

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "default")


def memory_of(store: Store, embedder: object) -> Memory:
    """Return ada's memory."""
    return Memory(store, user_id="ada", embedder=embedder)


async def fill(store: Store, *texts: str, thread: str = "default") -> None:
    """Save ada's messages without scheduling anything, as an import does."""
    await store.append_turn([Message("user", text) for text in texts], scope=ADA.with_thread(thread))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches wait for as long as a busy machine may need; they go on as soon as it is done."""
    monkeypatch.setattr(recaller_module, "CATCH_UP_SECONDS", GENEROUS)


def note_of(lacking: int, searched: int) -> str:
    """Return the note of a search that lacked vectors."""
    return (
        f"{lacking} of {searched} messages were searched by their words alone: their vectors are not written "
        "yet; `await memory.settled()` or `recollect reindex` writes them"
    )


class HeldByBob(Held):
    """Waits with a text of Bob's alone."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Answer, for Bob only when told to go on."""
        if "I am Bob." not in texts:
            return await Words().embed_documents(texts)
        return await super().embed_documents(texts)


@pytest.mark.usefixtures("patient")
async def test_message_is_found_by_meaning_right_after_it_was_written(store: Store) -> None:
    """The built-in embedder, once loaded, needs less time than a search waits for it."""
    await fill(store, "My dog Rex is afraid of thunder.", "I take the train to work.")
    async with Memory(store, user_id="ada", embedder=MiniLM(), semantic_recall=True) as memory:
        await memory.prepare()
        found = await memory.query("What frightens my pet?", top_k=1, message_range=0, explain=True)
    assert [hit.text for hit in found] == ["My dog Rex is afraid of thunder."]
    assert found.notes == ()
    why = found[0].why
    assert why is not None
    assert why.vector_score is not None


@pytest.mark.usefixtures("patient")
async def test_message_is_embedded_once_when_searches_and_the_background_want_it(store: Store) -> None:
    """A search takes its turn with the background, and with other searches."""
    embedder = Words()
    texts = [f"Message {n} of the cello." for n in range(20)]
    async with Memory(store, user_id="ada", embedder=embedder, semantic_recall=True) as memory:
        await memory.save_messages([Message("user", text) for text in texts])
        for _ in range(3):
            assert (await memory.query("cello")).notes == ()
        await memory.settled()
    assert sorted(embedder.read) == sorted(texts)


async def test_newest_messages_come_first_when_many_wait(store: Store) -> None:
    """What was just said has its vector, whatever waits before it."""
    embedder = Slow()
    texts = [f"Message {n}." for n in range(3 * MESSAGES_AT_ONCE)]
    await fill(store, *texts)
    async with memory_of(store, embedder) as memory:
        await memory.query("cello")
        await memory.query("cello")
        assert embedder.read == []
        await memory.settled()
    assert embedder.read[0] in texts[-4:]
    assert sorted(embedder.read) == sorted(texts)


@pytest.mark.usefixtures("patient")
async def test_background_lets_a_search_go_first(store: Store) -> None:
    """As many messages as fit into the time are embedded, in small batches from the newest back."""
    embedder = Words()
    texts = [f"Message {n}." for n in range(2 * MESSAGES_AT_ONCE)]
    await fill(store, *texts)
    async with memory_of(store, embedder) as memory:
        assert (await memory.query("cello")).notes == ()
        await memory.settled()
    batches = [texts[end - 4 : end] for end in range(len(texts), 0, -4)]
    assert embedder.read == [text for batch in batches for text in batch]


async def test_search_waits_no_longer_than_its_bound_and_loses_no_work(store: Store) -> None:
    """An embedder that takes a second costs the search a fifth of it; its vectors are stored later."""
    embedder = Slow()
    await fill(store, "The cello is in the attic.", "I like trains.")
    async with memory_of(store, embedder) as memory:
        started = time.monotonic()
        found = await memory.query("cello", top_k=1)
        seconds = time.monotonic() - started
        assert CATCH_UP_SECONDS <= seconds < 0.9
        assert [hit.text for hit in found] == ["The cello is in the attic."]
        assert found.notes == (note_of(2, 2),)
        await memory.settled()
        assert len(embedder.read) == 2
        assert (await memory.query("cello")).notes == ()


class SlowInBoth(Words):
    """Takes longer for a question than for documents, as an embedder does that is loading its model."""

    async def embed_query(self, text: str) -> list[float]:
        """Wait, then answer."""
        await asyncio.sleep(4 * CATCH_UP_SECONDS)
        return await super().embed_query(text)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Wait, then answer."""
        await asyncio.sleep(2 * CATCH_UP_SECONDS)
        return await super().embed_documents(texts)


async def test_vectors_count_that_come_while_the_question_is_embedded(store: Store) -> None:
    """A search that waits for the question's vector anyway reads what was written meanwhile."""
    await fill(store, "The cello is in the attic.")
    async with memory_of(store, SlowInBoth()) as memory:
        await memory.query("cello")
        await memory.settled()
        await fill(store, "Another cello.")
        assert (await memory.query("cello")).notes == ()


async def test_search_costs_nothing_more_when_nothing_is_missing(store: Store) -> None:
    """No task is started, and nothing waits."""
    await fill(store, "The cello is in the attic.", "\U0001f600")
    recaller = Recaller(StoreHandle(store), as_embedder(Words()))
    await recaller.search("cello", RecallSettings(), scope=ADA)
    await recaller.wait_until_idle()
    await recaller.close()
    for _ in range(2):
        assert (await recaller.search("cello", RecallSettings(), scope=ADA)).notes == ()
    assert not recaller._indexers  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nothing else shows it


async def test_search_does_not_wait_again_for_messages_that_the_embedder_rejects(store: Store) -> None:
    """One search tries them; later ones leave them to the background, and keep saying so."""
    embedder = Broken(documents=True)
    await fill(store, "The cello is in the attic.")
    recaller = Recaller(StoreHandle(store), as_embedder(embedder))
    tried: list[bool] = []
    for _ in range(2):
        found = await recaller.search("cello", RecallSettings(), scope=ADA)
        assert found.notes == (note_of(1, 1),)
        tried.append("catch_up_ms" in found.timings)
    assert tried == [True, False]
    await recaller.close()


@pytest.mark.usefixtures("patient")
async def test_another_user_does_not_wait_for_the_one_in_the_background(store: Store) -> None:
    """The background works on one user at a time; a search embeds its own messages meanwhile."""
    embedder = HeldByBob()
    await fill(store, "The cello is in the attic.")
    async with Memory(store, embedder=embedder, semantic_recall=True) as memory:
        await memory.add_message("user", "I am Bob.", user_id="bob")
        await embedder.reached.wait()
        assert (await memory.query("cello", user_id="ada")).notes == ()
        embedder.go_on.set()
        await memory.settled()


async def test_note_counts_the_messages_that_were_searched(store: Store) -> None:
    """Messages of other threads do not count in a search of one; those without words never do."""
    await fill(store, "The cello is in the attic.", "\U0001f600", "No cello here.")
    await fill(store, "Another cello.", thread="other")
    async with memory_of(store, Broken(documents=True)) as memory:
        assert (await memory.query("cello")).notes == (note_of(3, 4),)
        assert (await memory.query("cello", within="thread", thread_id="other")).notes == (note_of(1, 1),)


async def test_nothing_is_noted_without_an_embedder(store: Store) -> None:
    """Who chose to search by words need not be told so."""
    await fill(store, "The cello is in the attic.")
    async with memory_of(store, None) as memory:
        assert (await memory.query("cello")).notes == ()


async def test_no_task_is_left_when_closed_while_a_search_embeds(store: Store) -> None:
    """Closing ends what a search began; the messages wait for the next one."""
    embedder = Held()
    await fill(store, "The cello is in the attic.")
    async with memory_of(store, embedder) as memory:
        assert (await memory.query("cello")).notes == (note_of(1, 1),)
    async with memory_of(store, Words()) as memory:
        await memory.query("cello")
        await memory.settled()
        assert (await memory.query("cello")).notes == ()
