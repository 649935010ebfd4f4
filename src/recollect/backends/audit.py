"""The audit log of a runtime: hidden events in the store, beside the session that they are about."""

from collections.abc import Mapping

from recollect.scope import Scope
from recollect.storage.handle import StoreHandle
from recollect.validation import check_id


class StoreAudit:
    """Writes what backends did for one user as events of the store; see `AuditLog`."""

    def __init__(self, handle: StoreHandle, user_id: str) -> None:
        """Write to a store, about a user who belongs to no tenant."""
        self._handle = handle
        self._user_id = check_id(user_id, "user_id")

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Write one event of a session; it is on disk when this returns, and a failure is raised."""
        store = await self._handle.get()
        await store.add_event(name, payload, run_id=run_id, scope=Scope(None, self._user_id, session_id))
