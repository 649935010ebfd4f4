"""Audit events: what was done for the runs of a session. They are never part of the conversation."""

from collections.abc import Mapping
from functools import partial
from typing import cast

from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction
from recollect.storage.records import AuditEvent
from recollect.storage.rows import (
    app_keys,
    decode_each,
    decode_object,
    decoding,
    from_micros,
    thread_keys,
    to_micros,
)
from recollect.validation import (
    check_id,
    check_int,
    check_json_object,
    check_limit,
    check_optional_id,
    encode_json,
)

_QUICK_ROWS = 500  # more rows than this are read off the event loop


class Events(StoreCore):
    """Writes and lists audit events; no history, search, prompt or message count includes them."""

    async def add_event(
        self, name: str, payload: Mapping[str, object], *, run_id: str | None = None, scope: Scope
    ) -> int:
        """Write an event of the scope's thread and return its number, which is never reused.

        The thread need not exist, and is not created: an event may come before the first turn.
        """
        params = thread_keys(scope) | {
            "name": check_id(name, "name"),
            "run_id": check_optional_id(run_id, "run_id"),
            "payload": _encode_payload(payload),
            "created_at": to_micros(self._clock()),
        }
        return await self._write(partial(_add_event, params), scope)

    async def list_events(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        name: str | None = None,
        run_id: str | None = None,
        scope: Scope,
    ) -> list[AuditEvent]:
        """Return events, oldest first; `name` and `run_id` filter them.

        `thread_id=None` means all threads of the scope's app and project. A limit selects the newest events,
        after an offset has skipped that many of the newest.
        """
        params = {
            "limit": check_limit(limit),
            "offset": check_int(offset, "offset"),
            "name": check_optional_id(name, "name"),
            "run_id": check_optional_id(run_id, "run_id"),
        }
        if scope.thread_id is None:
            statement, keys = "events_of_app", app_keys(scope)
        else:
            statement, keys = "events_of_thread", thread_keys(scope)
        heavy = limit is None or limit + offset > _QUICK_ROWS
        rows = await self._query(statement, keys | params, heavy=heavy)
        return decode_each(_decode_event, reversed(rows))


def _encode_payload(payload: object) -> str:
    if not isinstance(payload, Mapping):
        raise InvalidArgumentError("payload", f"must be a dict, not {type(payload).__name__}")
    return encode_json(check_json_object(dict(cast("Mapping[str, object]", payload)), "payload"), "payload")


def _add_event(params: Params) -> Transaction[int]:
    _, drawn = yield Step((Statement("lock_user", params), Statement("draw_numbers", {"count": 1})))
    number = cast("int", drawn[0][0])
    yield Step((Statement("add_event", {**params, "number": number}),), last=True)
    return number


def _decode_event(row: Row) -> AuditEvent:
    number, thread_id, name, run_id, payload, context_visible, created_at = row
    with decoding(f"event {number} of thread {thread_id!r:.200}"):
        return AuditEvent(
            number,
            thread_id,
            name,
            decode_object(payload),
            run_id,
            from_micros(created_at),
            context_visible=bool(context_visible),
        )
