"""Threads: the conversations of a user."""

from collections.abc import Mapping
from functools import partial

from recollect.errors import MemoryNotFoundError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, Unchanged
from recollect.storage.records import DEFAULT_TITLE, Thread
from recollect.storage.rows import decode_each, decode_metadata, decoding, encode_metadata, from_micros
from recollect.storage.turns import build_creation
from recollect.storage.users import raise_epoch
from recollect.validation import check_int, check_json_object, check_limit, check_text


class Threads(StoreCore):
    """Creating, finding, changing and removing threads."""

    async def create_thread(
        self, *, title: str | None = None, metadata: Mapping[str, object] | None = None, scope: Scope
    ) -> Thread:
        """Create the scope's thread, or return the existing one unchanged."""
        values = {
            "title": DEFAULT_TITLE if title is None else check_text(title, "title"),
            "metadata": encode_metadata(check_json_object({} if metadata is None else metadata, "metadata")),
            "next_position": 1,
        }
        row = await self._write(partial(_create, self._thread_keys(scope), values), scope)
        return decode_thread(row, scope)

    async def get_thread(self, *, scope: Scope) -> Thread | None:
        """Return the scope's thread, or None."""
        rows = await self._query("get_thread", self._thread_keys(scope))
        return decode_thread(rows[0], scope) if rows else None

    async def list_threads(self, *, limit: int | None = None, offset: int = 0, scope: Scope) -> list[Thread]:
        """Return the user's threads of the scope's app and project, the latest message first."""
        params = self._app_keys(scope) | {"limit": check_limit(limit), "offset": check_int(offset, "offset")}
        rows = await self._query("list_threads", params, heavy=limit is None)
        return decode_each(lambda row: decode_thread(row, scope), rows)

    async def update_thread(
        self, *, title: str | None = None, metadata: Mapping[str, object] | None = None, scope: Scope
    ) -> Thread:
        """Change the title or replace the metadata of a thread; None leaves it as it is."""
        keys = self._thread_keys(scope)
        changes: dict[str, object] = {"updated_at": keys["now"]}
        if title is not None:
            changes["title"] = check_text(title, "title")
        if metadata is not None:
            changes["metadata"] = encode_metadata(check_json_object(metadata, "metadata"))
        return decode_thread(await self._write(partial(_update, keys, changes), scope), scope)

    async def delete_thread(self, *, scope: Scope) -> bool:
        """Delete the thread with its messages, working memory and events; return whether it existed."""
        return await self._write(partial(_delete, self._thread_keys(scope)), scope, heavy=True)


def decode_thread(row: Row, scope: Scope) -> Thread:
    """Make a thread of the scope's user from the columns of the fragment `thread_columns`."""
    with decoding(f"thread {row[0]!r:.200}"):
        return _decode_thread(row, scope)


def _decode_thread(row: Row, scope: Scope) -> Thread:
    thread_id, app_id, project_id, title, metadata, created, updated, last, count, _ = row
    return Thread(
        id=thread_id,
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        app_id=app_id,
        project_id=project_id,
        title=title,
        metadata=decode_metadata(metadata),
        created_at=from_micros(created),
        updated_at=from_micros(updated),
        last_message_at=None if last is None else from_micros(last),
        message_count=count,
    )


def _create(keys: Params, values: Params) -> Transaction[Row]:
    *_, rows = yield Step(
        (Statement("lock_user", keys), *build_creation(keys, values), Statement("get_thread", keys)),
        last=True,
    )
    return rows[0]


def _update(keys: Params, changes: Params) -> Transaction[Row]:
    _, rows = yield Step((Statement("lock_user", keys), Statement("get_thread", keys)))
    if not rows:
        raise MemoryNotFoundError(f"there is no thread {keys['thread_id']!r}")
    present = {"title": rows[0][3], "metadata": rows[0][4]}
    _, rows = yield Step(
        (Statement("update_thread", {**keys, **present, **changes}), Statement("get_thread", keys)),
        last=True,
    )
    return rows[0]


def _delete(keys: Params) -> Transaction[bool]:
    # A thread without messages may have no row of its own, but still working memory and events.
    _, threads, fields, events = yield Step(
        (
            Statement("lock_user", keys),
            Statement("get_thread", keys),
            Statement("clear_working_memory", keys),
            Statement("delete_thread_events", keys),
        )
    )
    if not (threads or fields or events):
        raise Unchanged(value=False)
    parts = ("delete_thread_search_rows", "delete_thread_messages", "delete_thread")
    yield Step([Statement(name, keys) for name in parts])
    yield from raise_epoch(keys)
    return bool(threads)
