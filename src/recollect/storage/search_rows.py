"""Search rows: what search reads of a user's messages, and the vectors that an embedder made of them."""

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
    Unembedded,
    VectorModel,
    VectorRow,
    Waiting,
)
from recollect.storage.rows import user_keys
from recollect.storage.turns import numbers_drawn
from recollect.validation import check_id, check_int

_MOST_AT_ONCE = 1000
_FLOAT = 2  # bytes of a half-precision float
_SPAN = 8  # bytes of a pair of 32-bit numbers


class SearchRows(StoreCore):
    """The search rows of a user's messages; they come and go with the messages."""

    async def search_rows(
        self, *, after: int = 0, vectors_after: int = 0, limit: int | None = None, scope: Scope
    ) -> SearchChanges:
        """Return the user's epoch, the search rows with a number above `after`, and newer vectors.

        Rows come in order of their numbers, vectors in order of their stamps. Of rows only the newest
        `limit` come. All of it is as of one moment.
        """
        if limit is not None:
            check_int(limit, "limit")
        check_int(vectors_after, "vectors_after")
        params = user_keys(scope) | {"after": check_int(after, "after"), "limit": limit}
        return await self._read(partial(_changes, params, vectors_after), scope, heavy=after == 0)

    async def without_vectors(
        self, model_id: str, *, after: int = 0, limit: int = 64, any_model: bool = True, scope: Scope
    ) -> Unembedded:
        """Return the oldest messages that lack vectors, the user's epoch, and the newest vector's model.

        A vector of another model counts as one, unless `any_model` is off.
        """
        params = user_keys(scope) | {
            "model_id": check_id(model_id, "model_id"),
            "after": check_int(after, "after"),
            "limit": check_int(limit, "limit", maximum=_MOST_AT_ONCE),
            "any_model": bool(any_model),
        }
        return await self._read(partial(_unembedded, params), scope, heavy=True)

    async def put_vectors(
        self,
        vectors: Sequence[MessageVectors],
        *,
        model_id: str,
        dimensions: int,
        epoch: int,
        scope: Scope,
    ) -> int:
        """Keep vectors of messages in place of earlier ones, and return how many were kept.

        None is kept if the user's epoch is another one by now, and none of a message that is gone: what
        was erased while an embedder was at work never comes back.
        """
        check_int(dimensions, "dimensions", minimum=1)
        _check_vectors(vectors, dimensions)
        params = user_keys(scope) | {"model_id": check_id(model_id, "model_id"), "dimensions": dimensions}
        work = partial(_put, params, list(vectors), check_int(epoch, "epoch"))
        return await self._write(work, scope)


def _changes(params: Params, vectors_after: int) -> Transaction[SearchChanges]:
    epoch, rows, vectors = yield Step(
        (
            Statement("get_epoch", params),
            Statement("search_rows_from", params),
            Statement("vectors_from", {**params, "after": vectors_after}),
        ),
        last=True,
    )
    # _make is quicker than a call with the columns, and there may be many rows.
    return SearchChanges(
        epoch[0][0], list(map(SearchRow._make, reversed(rows))), list(map(VectorRow._make, vectors))
    )


def _unembedded(params: Params) -> Transaction[Unembedded]:
    names = ("get_epoch", "newest_vector", "without_vectors")
    epoch, newest, rows = yield Step([Statement(name, params) for name in names], last=True)
    model = VectorModel(*newest[0]) if newest else None
    return Unembedded(epoch[0][0], model, [Waiting(*row) for row in rows])


def _put(params: Params, vectors: list[MessageVectors], epoch: int) -> Transaction[int]:
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
    stamps = numbers_drawn(drawn, len(vectors))
    written: list[Params] = [
        {**params, **item._asdict(), "stamp": stamp} for item, stamp in zip(kept, stamps, strict=False)
    ]
    yield Step((Statement("put_vectors", written),), last=True)
    return len(kept)


def _check_vectors(vectors: Sequence[MessageVectors], dimensions: int) -> None:
    if isinstance(vectors, str | bytes) or not isinstance(cast("object", vectors), Sequence):
        raise InvalidArgumentError("vectors", f"must be a list of vectors, not {type(vectors).__name__}")
    if not 0 < len(vectors) <= _MOST_AT_ONCE:
        raise InvalidArgumentError("vectors", f"holds {len(vectors)} items; give 1 to {_MOST_AT_ONCE}")
    for item in cast("Sequence[object]", vectors):
        if not isinstance(item, MessageVectors):
            raise InvalidArgumentError("vectors", f"must hold MessageVectors, not {type(item).__name__}")
        check_int(item.number, "vectors")
        pieces, rest = divmod(len(item.spans), _SPAN)
        if rest or not pieces or len(item.vectors) != pieces * dimensions * _FLOAT:
            raise InvalidArgumentError("vectors", f"must have {dimensions} half-precision floats a piece")
    if len({item.number for item in vectors}) != len(vectors):
        raise InvalidArgumentError("vectors", "two of its items are of the same message")
