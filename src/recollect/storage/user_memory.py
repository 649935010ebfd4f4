"""User memory: JSON objects by key."""

from functools import partial
from typing import cast

from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, query
from recollect.storage.records import MemoryEntry
from recollect.storage.rows import decode_json, from_micros, to_micros, user_keys
from recollect.storage.users import remove
from recollect.validation import check_id, check_json_object, json_text


class UserMemories(StoreCore):
    """The values kept about a user, over all apps and projects."""

    async def set_memory(self, key: str, value: dict[str, object], *, scope: Scope) -> int:
        """Store a value under a key, in place of what was there; return the entry's number."""
        params = memory_key(key, scope) | {
            "value": json_text(check_json_object(value, "value"), "value"),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_set_memory, params), scope)

    async def get_memory(self, key: str, *, scope: Scope) -> MemoryEntry | None:
        """Return the entry under a key, or None."""
        rows = await self._read(partial(query, "get_memory", memory_key(key, scope), last=True), scope)
        return decode_memory(rows[0]) if rows else None

    async def list_memory(self, *, scope: Scope) -> list[MemoryEntry]:
        """Return all entries of a user, by key."""
        rows = await self._read(partial(query, "list_memory", user_keys(scope), last=True), scope, heavy=True)
        return [decode_memory(row) for row in rows]

    async def delete_memory(self, key: str, *, scope: Scope) -> bool:
        """Remove the entry under a key; say if it was there."""
        return await self._write(partial(remove, "delete_memory", memory_key(key, scope)), scope) > 0

    async def clear_memory(self, *, scope: Scope) -> int:
        """Remove all entries of a user and return how many there were."""
        return await self._write(partial(remove, "delete_user_memory", user_keys(scope)), scope)


def memory_key(key: str, scope: Scope) -> dict[str, object]:
    """Return the key columns of one entry."""
    return user_keys(scope) | {"key": check_id(key, "key")}


def decode_memory(row: Row) -> MemoryEntry:
    """Make an entry from its columns."""
    key, number, value, updated_at = row
    return MemoryEntry(number, key, cast("dict[str, object]", decode_json(value)), from_micros(updated_at))


def _set_memory(params: Params) -> Transaction[int]:
    _, drawn = yield Step((Statement("lock_user", params), Statement("draw_numbers", {"count": 1})))
    rows = yield from query("set_memory", {**params, "number": drawn[0][0]}, last=True)
    return cast("int", rows[0][0])
