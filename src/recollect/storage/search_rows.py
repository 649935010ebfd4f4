"""Search rows: the terms of a user's messages, and the vectors that an embedder computed for them.

They are written some time after the message, by whoever comes next: the background worker, a search or a
reindex. Until then a message is searched by its text. Deleting a message deletes its rows in the same
transaction.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import cast

from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import QUICK_BYTES, Params, Row, Statement, Step, Transaction, Unchanged
from recollect.storage.records import (
    MessageTerms,
    SearchChanges,
    SearchRow,
    UnindexedMessage,
    UnindexedMessages,
    VectorModel,
    VectorRow,
)
from recollect.storage.users import raise_epoch, read_epoch
from recollect.text.segments import MAX_SEGMENTS
from recollect.text.terms import ANALYSER_VERSION
from recollect.validation import (
    MAX_INT,
    Scalar,
    check_flag,
    check_int,
    check_limit,
    check_optional_id,
    check_scalars,
    encode_json,
)

_log = logging.getLogger(__name__)

MAX_COUNTED = 10_000
"""How far `count_unindexed` counts unless told otherwise."""

QUICK_PAGE = 2_000
"""How many search rows are read on the event loop at most."""

_MAX_BATCH = 1000
_QUICK_ROWS = 256  # more rows than this are written off the event loop
_HASH_BYTES = 4
_FLOAT_BYTES = 2  # half precision
_MESSAGE = 0  # the kind of source


class SearchRows(StoreCore):
    """The search rows of a user's messages."""

    async def search_rows(
        self,
        *,
        after: int = 0,
        vectors_from: int | None = 0,
        vectors_of: Sequence[int] = (),
        limit: int | None = None,
        scope: Scope,
    ) -> SearchChanges:
        """Return the user's epoch, the search rows after a number, and vectors.

        The vectors are those of the messages from a number on (None: no such) and of those in `vectors_of`.
        Rows are sorted by number. With `limit` they are a page of so many messages at most, and vectors are
        read up to its end, `up_to`, after which the next page begins. All of it is one snapshot of the
        database.
        """
        params = self._user_keys(scope) | {
            "after": check_int(after, "after"),
            "limit": MAX_INT if limit is None else check_int(limit, "limit", minimum=1),
            "analyser": ANALYSER_VERSION,
        }
        vectors: list[Statement] = []
        if vectors_of:
            numbers = json.dumps([check_int(number, "vectors_of") for number in vectors_of])
            vectors.append(Statement("vectors_of", {**params, "numbers": numbers}))
        if vectors_from is not None:
            first = check_int(vectors_from, "vectors_from")
            vectors.append(Statement("vectors_from", {**params, "vectors_from": first}))
        heavy = after == 0 or limit is None or limit > QUICK_PAGE
        return await self._read(partial(_read_changes, params, vectors), scope, heavy=heavy)

    async def unindexed_messages(
        self,
        model_id: str | None,
        *,
        after: int = 0,
        limit: int = 64,
        any_model: bool = True,
        scope: Scope,
    ) -> UnindexedMessages:
        """Return the oldest messages that lack search rows, the erase epoch, and the newest vector's model.

        Without a model only terms count; with one a vector too. By default vectors of any model count, with
        `any_model=False` only those of `model_id`.
        """
        params = self._unindexed_params(model_id, scope, any_model=any_model) | {
            "after": check_int(after, "after"),
            "limit": check_int(limit, "limit", maximum=_MAX_BATCH),
        }
        return await self._read(partial(_read_unindexed, params), scope, heavy=True)

    async def count_unindexed(
        self,
        model_id: str | None = None,
        *,
        any_model: bool = True,
        limit: int | None = MAX_COUNTED,
        scope: Scope,
    ) -> int:
        """Count the messages that `unindexed_messages` would return, up to a limit (None: all)."""
        params = self._unindexed_params(model_id, scope, any_model=any_model) | {
            "after": 0,
            "limit": check_limit(limit),
        }
        rows = await self._query("count_unindexed", params, heavy=True)
        return cast("int", rows[0][0])

    async def numbers_with_metadata(self, metadata: Mapping[str, Scalar], *, scope: Scope) -> list[int]:
        """Return the numbers of the user's searched messages whose metadata have all these values, in order.

        Values are equal if their JSON is: 1, 1.0, True and "1" differ, and None is not a missing key.
        """
        wanted = encode_json(check_scalars(metadata, "metadata"), "metadata")
        rows = await self._query(
            "numbers_with_metadata", self._user_keys(scope) | {"metadata": wanted}, heavy=True
        )
        return [row[0] for row in rows]

    async def put_search_rows(
        self,
        messages: Sequence[MessageTerms],
        *,
        model_id: str | None = None,
        erase_epoch: int,
        replace: bool = False,
        scope: Scope,
    ) -> int:
        """Store the search rows of messages, and return of how many.

        Stores nothing if the user was erased since `erase_epoch`, and nothing for a message that was deleted:
        what was erased while an embedder was running never comes back. A message without vectors keeps those
        it has. With `replace` the new rows take the place of all earlier ones.
        """
        _check_messages(messages, model_id)
        params = self._user_keys(scope) | {
            "analyser": ANALYSER_VERSION,
            "model_id": check_optional_id(model_id, "model_id"),
            "kind": _MESSAGE,
        }
        check_int(erase_epoch, "erase_epoch")
        work = partial(_put, params, list(messages), erase_epoch, replace=check_flag(replace, "replace"))
        rows = sum(max(1, len(item.vectors)) for item in messages)
        size = sum(len(item.term_hashes) for item in messages)
        return await self._write(work, scope, heavy=rows > _QUICK_ROWS or size > QUICK_BYTES)

    def _unindexed_params(self, model_id: str | None, scope: Scope, *, any_model: bool) -> dict[str, object]:
        return self._user_keys(scope) | {
            "model_id": check_optional_id(model_id, "model_id"),
            "analyser": ANALYSER_VERSION,
            "any_model": bool(any_model),
        }


def _read_changes(params: Params, vectors: list[Statement]) -> Transaction[SearchChanges]:
    epochs, last, end, rows, *found = yield Step(
        (
            Statement("find_epochs", params),
            Statement("last_number", params),
            Statement("end_of_page", params),
            Statement("search_rows_from", params),
            *vectors,
        ),
        last=True,
    )
    # `_make` is faster than a call with the columns, and there may be many rows.
    return SearchChanges(
        read_epoch(epochs, last),
        list(map(SearchRow._make, _leave_out(_has_damaged_terms, rows))),
        list(map(VectorRow._make, _leave_out(_is_damaged_vector, chain.from_iterable(found)))),
        cast("int", end[0][0]) if end else None,
    )


def _leave_out(is_damaged: Callable[[Row], bool], rows: Iterable[Row]) -> list[Row]:
    """Return the sound rows; the others are derived data, which a reindex makes again."""
    sound: list[Row] = []
    damaged: list[int] = []
    for row in rows:
        if is_damaged(row):
            damaged.append(row[0])
        else:
            sound.append(row)
    if damaged:
        _log.warning("search rows of messages %s are damaged; run `recollect reindex`", damaged[:10])
    return sound


def _has_damaged_terms(row: Row) -> bool:
    hashes, counts = row[10], row[11]
    return hashes is not None and len(hashes) != _HASH_BYTES * len(counts)


def _is_damaged_vector(row: Row) -> bool:
    return not row[3] or len(row[3]) % _FLOAT_BYTES != 0


def _read_unindexed(params: Params) -> Transaction[UnindexedMessages]:
    names = ["find_epochs", "unindexed_messages"]
    if params["model_id"] is not None:
        names.append("newest_model")
    epochs, rows, *newest = yield Step([Statement(name, params) for name in names], last=True)
    model = VectorModel(newest[0][0][0], newest[0][0][1] // _FLOAT_BYTES) if newest and newest[0] else None
    return UnindexedMessages(epochs[0][1] if epochs else 0, model, [UnindexedMessage(*row) for row in rows])


def _put(
    params: Params, messages: list[MessageTerms], erase_epoch: int, *, replace: bool
) -> Transaction[int]:
    numbers = json.dumps([item.number for item in messages])
    _, epochs, rows = yield Step(
        (
            Statement("lock_user", params),
            Statement("find_epochs", params),
            Statement("present_numbers", {**params, "numbers": numbers}),
        )
    )
    present = {row[0] for row in rows}
    kept = [item for item in messages if item.number in present]
    if epochs[0][1] != erase_epoch or not kept:
        raise Unchanged(0)
    statements = [Statement("put_search_row", [row for item in kept for row in _build_rows(params, item)])]
    # New vectors take the place of all earlier ones, which may be of another model and more segments.
    renewed = [item.number for item in kept if replace or item.vectors]
    if renewed:
        statements.insert(0, Statement("delete_search_rows_of", {**params, "numbers": json.dumps(renewed)}))
    yield Step(statements, last=not replace)
    if replace:
        yield from raise_epoch(params)  # caches must not mix the vectors of two models
    return len(kept)


def _build_rows(params: Params, item: MessageTerms) -> Iterator[Params]:
    """Yield a row for each segment; the first has the terms of the whole message."""
    terms = {"asks": item.asks, "term_hashes": item.term_hashes, "term_counts": item.term_counts}
    if not item.vectors:
        yield {**params, **terms, "number": item.number, "segment": 0, "model_id": None, "vector": None}
    for segment, vector in enumerate(item.vectors):
        yield {**params, **terms, "number": item.number, "segment": segment, "vector": vector}
        terms = {"asks": False, "term_hashes": b"", "term_counts": b""}


def _check_messages(messages: Sequence[MessageTerms], model_id: str | None) -> None:
    if isinstance(messages, str | bytes) or not isinstance(cast("object", messages), Sequence):
        raise InvalidArgumentError("messages", f"must be a list of terms, not {type(messages).__name__}")
    if not 0 < len(messages) <= _MAX_BATCH:
        raise InvalidArgumentError("messages", f"has {len(messages)} items; give 1 to {_MAX_BATCH}")
    for item in cast("Sequence[object]", messages):
        if not isinstance(item, MessageTerms):
            raise InvalidArgumentError("messages", f"must hold MessageTerms, not {type(item).__name__}")
        check_int(item.number, "messages")
        if len(item.term_hashes) != _HASH_BYTES * len(item.term_counts):
            raise InvalidArgumentError("messages", "must have one byte of count for each hash of four")
        if len(item.vectors) > MAX_SEGMENTS:
            raise InvalidArgumentError("messages", f"has over {MAX_SEGMENTS} vectors of one message")
    if len({item.number for item in messages}) != len(messages):
        raise InvalidArgumentError("messages", "two items are of the same message")
    _check_vectors([vector for item in messages for vector in item.vectors], model_id)


def _check_vectors(vectors: Sequence[bytes], model_id: str | None) -> None:
    sizes = {len(vector) for vector in vectors}
    if vectors and model_id is None:
        raise InvalidArgumentError("model_id", "must name the model of the vectors")
    if len(sizes) > 1 or any(size == 0 or size % _FLOAT_BYTES for size in sizes):
        raise InvalidArgumentError(
            "messages", "must have vectors of half-precision floats, all of one length"
        )
