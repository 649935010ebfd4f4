"""Audit events: what was done for the runs of a session, kept beside the talk and never a part of it."""

from collections.abc import Mapping
from functools import partial
from typing import cast

from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, query
from recollect.storage.records import AuditEvent
from recollect.storage.rows import app_keys, decode_json, from_micros, thread_keys, to_micros
from recollect.validation import check_id, check_int, check_json_object, json_text

_QUICK_ROWS = 500  # more than this is read off the event loop


class Events(StoreCore):
    """Writing and listing audit events; no history, search, prompt or count of messages knows of them."""

    async def add_event(
        self, name: str, payload: Mapping[str, object], *, run_id: str | None = None, scope: Scope
    ) -> int:
        """Write an event of the scope's thread and return its number, which is never used again.

        The thread need not be there, and is not created: an event may come before the first turn.
        """
        params = thread_keys(scope) | {
            "name": check_id(name, "name"),
            "run_id": None if run_id is None else check_id(run_id, "run_id"),
            "payload": encode_payload(payload),
            "created_at": to_micros(self._clock()),
        }
        return await self._write(partial(_add, params), scope)

    async def list_events(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        name: str | None = None,
        run_id: str | None = None,
        scope: Scope,
    ) -> list[AuditEvent]:
        """Return events in the order in which they were written, of one name or run where it is given.

        `thread_id=None` means all threads of the scope's app and project. A limit takes the newest ones, and
        an offset leaves out so many of the very newest.
        """
        params = {
            "limit": None if limit is None else check_int(limit, "limit"),
            "offset": check_int(offset, "offset"),
            "name": None if name is None else check_id(name, "name"),
            "run_id": None if run_id is None else check_id(run_id, "run_id"),
        }
        if scope.thread_id is None:
            work = partial(query, "events_of_app", app_keys(scope) | params, last=True)
        else:
            work = partial(query, "events_of_thread", thread_keys(scope) | params, last=True)
        rows = await self._read(work, scope, heavy=limit is None or limit + offset > _QUICK_ROWS)
        return [_decoded(row) for row in reversed(rows)]


def encode_payload(payload: object) -> str:
    """Return a payload as its column holds it."""
    if not isinstance(payload, Mapping):
        raise InvalidArgumentError("payload", f"must be a dict, not {type(payload).__name__}")
    return json_text(check_json_object(dict(cast("Mapping[str, object]", payload)), "payload"), "payload")


def _add(params: Params) -> Transaction[int]:
    _, drawn = yield Step((Statement("lock_user", params), Statement("draw_numbers", {"count": 1})))
    number = cast("int", drawn[0][0])
    yield Step((Statement("add_event", {**params, "number": number}),), last=True)
    return number


def _decoded(row: Row) -> AuditEvent:
    number, thread_id, name, run_id, payload, context_visible, created_at = row
    return AuditEvent(
        number,
        thread_id,
        name,
        cast("dict[str, object]", decode_json(payload)),
        run_id,
        from_micros(created_at),
        context_visible=bool(context_visible),
    )
