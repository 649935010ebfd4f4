"""The audit log of a runtime, on every engine."""

from typing import TYPE_CHECKING

import pytest

from recollect import InvalidArgumentError, Scope, Store
from recollect.backends.base import StoreAudit
from recollect.errors import StoreMisuseError
from recollect.storage.opening import StoreHandle

if TYPE_CHECKING:
    from recollect.backends.base import AuditLog

pytestmark = pytest.mark.anyio


async def test_event_of_a_session_is_written_and_hidden(store: Store) -> None:
    """What a backend records is an event of the user, in no tenant, with its session and run."""
    audit: AuditLog = StoreAudit(StoreHandle(store), Scope(None, "local"))
    await audit.record("memory_gateway_recall_succeeded", {"count": 2}, session_id="s1", run_id="r1")
    (event,) = await store.list_events(scope=Scope(None, "local"))
    assert (event.thread_id, event.run_id, event.name) == ("s1", "r1", "memory_gateway_recall_succeeded")
    assert event.payload == {"count": 2}
    assert not event.context_visible
    assert await store.list_threads(scope=Scope(None, "local")) == []


async def test_failure_is_raised(store: Store) -> None:
    """An event that could not be written is not swallowed."""
    audit = StoreAudit(StoreHandle(store), Scope(None, "local"))
    with pytest.raises(InvalidArgumentError, match="payload"):
        await audit.record("x", {"a": float("nan")}, session_id="s1", run_id="r1")
    await store.close()
    with pytest.raises(StoreMisuseError):
        await audit.record("x", {}, session_id="s1", run_id="r1")
