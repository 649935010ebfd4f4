"""Search rows: the terms of a user's messages, and the vectors that an embedder computed for them."""

import json
from collections.abc import Sequence
from functools import partial
from typing import cast

from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Statement, Step, Transaction, Unchanged
from recollect.storage.records import (
    MessageVectors,
    SearchChanges,
    SearchRow,
    UnembeddedMessage,
    UnembeddedMessages,
    VectorModel,
    VectorRow,
)
from recollect.storage.rows import user_keys
from recollect.storage.turns import list_drawn_numbers
from recollect.validation import check_id, check_int, check_limit

_MAX_BATCH = 1000
_FLOAT_BYTES = 2  # half precision
_SPAN_BYTES = 8  # two 32-bit numbers


class SearchRows(StoreCore):
    """The search rows of a user's messages; each is written and deleted with its message."""

    async def search_rows(
        self, *, after: int = 0, vectors_after: int = 0, limit: int | None = None, scope: Scope
    ) -> SearchChanges:
        """Return the user's epoch, the search rows after a number, and the vectors after a stamp.

        Rows are sorted by number, vectors by stamp; `limit` selects the newest rows. All of it comes from one
        snapshot of the database.
        """
        check_int(vectors_after, "vectors_after")
        params = user_keys(scope) | {"after": check_int(after, "after"), "limit": check_limit(limit)}
        return await self._read(partial(_read_changes, params, vectors_after), scope, heavy=after == 0)

    async def without_vectors(
        self, model_id: str, *, after: int = 0, limit: int = 64, any_model: bool = True, scope: Scope
    ) -> UnembeddedMessages:
        """Return the oldest messages that lack vectors, the user's epoch, and the newest vector's model.

        By default vectors of any model count; with `any_model=False` only those of `model_id` do.
        """
        params = user_keys(scope) | {
            "model_id": check_id(model_id, "model_id"),
            "after": check_int(after, "after"),
            "limit": check_int(limit, "limit", maximum=_MAX_BATCH),
            "any_model": bool(any_model),
        }
        return await self._read(partial(_read_unembedded, params), scope, heavy=True)

    async def put_vectors(
        self,
        vectors: Sequence[MessageVectors],
        *,
        model_id: str,
        dimensions: int,
        epoch: int,
        scope: Scope,
    ) -> int:
        """Store vectors of messages in place of earlier ones, and return how many were stored.

        Stores nothing if the user's epoch has changed, and nothing for a message that was deleted: what was
        erased while an embedder was running never comes back.
        """
        check_int(dimensions, "dimensions", minimum=1)
        _check_vectors(vectors, dimensions)
        params = user_keys(scope) | {"model_id": check_id(model_id, "model_id"), "dimensions": dimensions}
        work = partial(_put_vectors, params, list(vectors), check_int(epoch, "epoch"))
        return await self._write(work, scope)


def _read_changes(params: Params, vectors_after: int) -> Transaction[SearchChanges]:
    epoch, rows, vectors = yield Step(
        (
            Statement("get_epoch", params),
            Statement("search_rows_from", params),
            Statement("vectors_from", {**params, "after": vectors_after}),
        ),
        last=True,
    )
    # `_make` is faster than a call with the columns, and there may be many rows.
    return SearchChanges(
        epoch[0][0], list(map(SearchRow._make, reversed(rows))), list(map(VectorRow._make, vectors))
    )


def _read_unembedded(params: Params) -> Transaction[UnembeddedMessages]:
    names = ("get_epoch", "newest_vector", "without_vectors")
    epoch, newest, rows = yield Step([Statement(name, params) for name in names], last=True)
    model = VectorModel(*newest[0]) if newest else None
    return UnembeddedMessages(epoch[0][0], model, [UnembeddedMessage(*row) for row in rows])


def _put_vectors(params: Params, vectors: list[MessageVectors], epoch: int) -> Transaction[int]:
    numbers = json.dumps([item.number for item in vectors])
    _, epochs, rows, drawn = yield Step(
        (
            Statement("lock_user", params),
            Statement("get_epoch", params),
            Statement("present_numbers", {**params, "numbers": numbers}),
            Statement("draw_numbers", {"count": len(vectors)}),
        )
    )
    present = {row[0] for row in rows}
    kept = [item for item in vectors if item.number in present]
    if epochs[0][0] != epoch or not kept:
        raise Unchanged(0)
    stamps = list_drawn_numbers(drawn, len(vectors))
    written: list[Params] = [
        {**params, **item._asdict(), "stamp": stamp} for item, stamp in zip(kept, stamps, strict=False)
    ]
    yield Step((Statement("put_vectors", written),), last=True)
    return len(kept)


def _check_vectors(vectors: Sequence[MessageVectors], dimensions: int) -> None:
    if isinstance(vectors, str | bytes) or not isinstance(cast("object", vectors), Sequence):
        raise InvalidArgumentError("vectors", f"must be a list of vectors, not {type(vectors).__name__}")
    if not 0 < len(vectors) <= _MAX_BATCH:
        raise InvalidArgumentError("vectors", f"has {len(vectors)} items; give 1 to {_MAX_BATCH}")
    for item in cast("Sequence[object]", vectors):
        if not isinstance(item, MessageVectors):
            raise InvalidArgumentError("vectors", f"must hold MessageVectors, not {type(item).__name__}")
        check_int(item.number, "vectors")
        segments, rest = divmod(len(item.spans), _SPAN_BYTES)
        if rest or not segments or len(item.vectors) != segments * dimensions * _FLOAT_BYTES:
            raise InvalidArgumentError(
                "vectors", f"must have {dimensions} half-precision floats for each span"
            )
    if len({item.number for item in vectors}) != len(vectors):
        raise InvalidArgumentError("vectors", "two items are of the same message")
