"""Search rows are written after the turn: search needs none, and the background work stores all of them."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.agents import dump
from tests.support.databases import run_sql
from tests.support.embedders import Broken, Held, Words

from recollect import EmbedderError, Memory, Message, Scope, Store, open_store
from recollect.recall.embedding import indexer as indexer_module
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import Indexer
from recollect.recall.index import user_index as index_module
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.runtime.sessions.search import SessionSearch
from recollect.storage.opening import StoreHandle
from recollect.storage.records import SearchRow
from recollect.text.segments import analyse_segments
from recollect.text.terms import Terms

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "default")
CELLO = "The cello is in the attic."
TRAIN = "I take the train to Porto."


def memory_of(store: Store | str, embedder: object) -> Memory:
    """Return ada's memory."""
    return Memory(store, resource_id="ada", semantic_recall=True, embedder=embedder)


async def rows_of(store: Store) -> list[SearchRow]:
    """Return what search reads of ada's messages."""
    return (await store.search_rows(scope=ADA)).rows


async def search(recaller: Recaller, question: str) -> list[str]:
    """Return the texts that a search for ada finds."""
    found = await recaller.search(question, RecallSettings(top_k=1, message_range=0), scope=ADA)
    return [hit.text for hit in found]


class AnalysedTexts:
    """The texts that the index analyses itself, because they have no search row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch the index."""
        self.texts: list[str] = []
        monkeypatch.setattr(index_module, "analyse_segments", self._analyse)

    def _analyse(self, text: str) -> Terms:
        self.texts.append(text)
        return analyse_segments(text)


async def test_message_is_found_right_after_saving_without_a_search_row(store: Store) -> None:
    """Nothing runs between the save and the query, and the embedder never answers."""
    embedder = Held()
    async with memory_of(store, embedder) as memory:
        await store.append_turn([Message("user", CELLO), Message("user", TRAIN)], scope=ADA)
        assert [row.text for row in await rows_of(store)] == [CELLO, TRAIN]
        (hit,) = await memory.query("cello", top_k=1, explain=True, message_range=0)
        assert hit.text == CELLO
        assert hit.why is not None
        assert (hit.why.matched_terms, hit.why.vector_score) == (("cello",), None)
        assert [row.text for row in await rows_of(store)] == [CELLO, TRAIN]
        assert embedder.read == []


@pytest.mark.parametrize("embedder", [None, Words()], ids=["words", "hybrid"])
async def test_all_rows_are_stored_when_the_background_work_is_done(store: Store, embedder: object) -> None:
    """No message lacks anything, and the rows are what an analysis of the texts gives."""
    model_id = None if embedder is None else "words"
    texts = [CELLO, TRAIN, "Where is it?", "\U0001f600", "word " * 5_000]
    async with memory_of(store, embedder) as memory:
        await store.append_turn([Message("user", text) for text in texts], scope=ADA)
        assert await store.count_unindexed(model_id, scope=ADA) == len(texts)
        await memory.query("cello")
        await memory.settled()
    assert await store.count_unindexed(model_id, scope=ADA) == 0
    found = await store.search_rows(scope=ADA)
    terms = [analyse_segments(text) for text in texts]
    assert [(row.term_hashes, row.term_counts) for row in found.rows] == [(t.hashes, t.counts) for t in terms]
    assert [bool(row.asks) for row in found.rows] == [False, False, True, False, False]
    assert [row.text for row in found.rows] == [None] * len(texts)
    with_vectors = {vector.number for vector in found.vectors}
    assert with_vectors == (set() if embedder is None else {r.number for r in found.rows if r.term_hashes})


async def test_another_memory_reads_the_stored_rows_without_analysing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process neither analyses nor embeds a text again, and writes nothing."""
    first, second = Words(), Words()
    async with memory_of(sqlite_url, first) as memory:
        await memory.save_messages([Message("user", CELLO), Message("user", TRAIN)])
        await memory.settled()
    async with open_store(sqlite_url) as store:
        before = await store.search_rows(scope=ADA)
    analysed = AnalysedTexts(monkeypatch)
    async with memory_of(sqlite_url, second) as memory:
        (hit,) = await memory.query("cello", top_k=1, explain=True, message_range=0)
        await memory.settled()
    assert hit.why is not None
    assert hit.why.vector_score is not None
    assert (first.read, second.read, analysed.texts) == ([CELLO, TRAIN], [], [])
    async with open_store(sqlite_url) as store:
        assert await store.search_rows(scope=ADA) == before


async def test_index_analyses_what_has_no_row_and_only_that(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new message next to stored rows is analysed once, however often it is searched."""
    recaller = Recaller(StoreHandle(store), None)
    await store.append_turn([Message("user", CELLO)], scope=ADA)
    recaller.schedule_indexing(ADA, store)
    await recaller.wait_until_idle()
    await store.append_turn([Message("user", TRAIN)], scope=ADA)
    analysed = AnalysedTexts(monkeypatch)
    for _ in range(3):
        assert await search(recaller, "train") == [TRAIN]
    assert analysed.texts == [TRAIN]
    await recaller.close()


async def test_search_by_words_stores_terms_and_loads_no_vectors(store: Store) -> None:
    """A memory without an embedder writes the terms of what others saved, and leaves vectors alone."""
    async with memory_of(store, Words()) as memory:
        await memory.add_message("user", CELLO)
        await memory.settled()
    await store.append_turn([Message("user", TRAIN)], scope=ADA)
    recaller = Recaller(StoreHandle(store), None)
    assert await search(recaller, "train") == [TRAIN]
    await recaller.wait_until_idle()
    assert await store.count_unindexed(scope=ADA) == 0
    assert await store.count_unindexed("words", scope=ADA) == 1
    assert len((await store.search_rows(scope=ADA)).vectors) == 1
    async with recaller._get_cache(store).open_index(ADA, store) as index:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nothing else shows it
        assert len(index) == 2
        assert not index.has_vector.any()


async def test_session_search_stores_terms_in_the_background(store: Store) -> None:
    """The tool that searches sessions needs no memory beside it to get the terms stored."""
    await store.append_turn([Message("user", CELLO)], scope=ADA)
    sessions = SessionSearch(StoreHandle(store), Scope(None, "ada"))
    (match,) = await sessions.search("cello")
    assert [hit.message.text for hit in match.hits] == [CELLO]
    recaller = sessions._recaller  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - to wait for its work
    assert recaller is not None
    await recaller.wait_until_idle()
    assert await store.count_unindexed(scope=ADA) == 0
    assert (await store.search_rows(scope=ADA)).vectors == []


async def test_terms_are_stored_when_the_embedder_is_broken(store: Store) -> None:
    """Only the vectors wait, and they come once it works again."""
    embedder = Broken(documents=True)
    async with memory_of(store, embedder) as memory:
        await memory.save_messages([Message("user", f"Message {n}.") for n in range(70)])
        with pytest.raises(EmbedderError):
            await memory.settled()
        assert await store.count_unindexed(scope=ADA) == 0
        assert await store.count_unindexed("words", scope=ADA) == 70
        assert [await store.count_unindexed("words", limit=n, scope=ADA) for n in (5, None)] == [5, 70]
        embedder.documents = False
        await memory.query("message")
        await memory.settled()
        assert await store.count_unindexed("words", scope=ADA) == 0
        assert await store.count_unindexed("other", scope=ADA) == 0
        assert await store.count_unindexed("other", any_model=False, scope=ADA) == 70


async def test_other_rows_stay_when_a_message_is_deleted(store: Store) -> None:
    """The search rows of the deleted message go, and no others."""
    async with memory_of(store, Words()) as memory:
        await memory.save_messages([Message("user", f"Message {n}.", id=f"m{n}") for n in range(5)])
        await memory.settled()
        before = await store.search_rows(scope=ADA)
        await memory.delete_messages(["m2"])
    after = await store.search_rows(scope=ADA)
    assert after.rows == before.rows[:2] + before.rows[3:]
    assert after.vectors == before.vectors[:2] + before.vectors[3:]
    assert await store.count_unindexed("words", scope=ADA) == 0


REMOVALS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "delete messages": lambda store: store.delete_messages(["m0", "m1"], scope=ADA),
    "delete thread": lambda store: store.delete_thread(scope=ADA),
    "clear history": lambda store: store.clear_history(scope=ADA),
    "erase": lambda store: store.erase(scope=ADA),
    "prune": lambda store: store.prune(datetime.now(UTC) + timedelta(days=1), scope=ADA),
}


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize(
    "url_fixture", ["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)]
)
async def test_table_has_no_row_of_messages_that_were_deleted_while_embedding(
    request: pytest.FixtureRequest, url_fixture: str, removal: str
) -> None:
    """Nothing is left of rows that were stored before, and nothing comes back from the embedder."""
    url: str = request.getfixturevalue(url_fixture)
    embedder = Held()
    async with open_store(url) as store, memory_of(store, embedder) as memory:
        await store.append_turn([Message("user", CELLO, id="m0")], scope=ADA)
        by_words = Recaller(StoreHandle(store), None)
        by_words.schedule_indexing(ADA, store)
        await by_words.wait_until_idle()
        await memory.save_messages([Message("user", TRAIN, id="m1")])
        await embedder.reached.wait()
        assert count_rows(url) == 1
        await REMOVALS[removal](store)
        assert count_rows(url) == 0
        embedder.go_on.set()
        await memory.settled()
    assert count_rows(url) == 0


def count_rows(url: str) -> int:
    """Count the search rows of everybody in a database."""
    if url.startswith("postgresql"):
        return run_sql(url, "SELECT count(*) FROM recollect.search_rows")[0][0]
    return len(dump(url)["search_rows"])


async def test_nothing_is_logged_when_the_store_is_closed_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Work that its store no longer takes is left to the next search, and is nobody's error."""
    caplog.set_level(logging.INFO, "recollect")
    embedder = Held()
    store = await open_store(f"sqlite:///{tmp_path}/store.db")
    memory = memory_of(store, embedder)
    await memory.add_message("user", CELLO)
    await embedder.reached.wait()
    await store.close()
    embedder.go_on.set()
    await memory.settled()
    await memory.close()
    assert caplog.text == ""


async def test_queue_holds_a_limited_number_of_users(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user too many is not queued, one who waits already stays, and the next search does the rest."""
    monkeypatch.setattr(indexer_module, "_MAX_USERS", 3)
    scopes = [Scope(None, f"user {n}", "t") for n in range(5)]
    for scope in scopes:
        await store.append_turn([Message("user", CELLO)], scope=scope)
    indexer = Indexer(as_embedder(Words()))
    for scope in [*scopes, *scopes]:
        indexer.schedule(scope, store)
        assert indexer.waiting_users <= 3
    await indexer.wait_until_idle()
    assert indexer.waiting_users == 0
    waiting = [await store.count_unindexed("words", scope=scope) for scope in scopes]
    assert waiting == [0, 0, 0, 1, 1]
    for scope in scopes[3:]:
        indexer.schedule(scope, store)
    await indexer.wait_until_idle()
    assert [await store.count_unindexed("words", scope=scope) for scope in scopes] == [0] * 5
