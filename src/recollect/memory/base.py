"""What memory's processors share: the store, and whose memory a run is about.

The run's own ids come first, then the defaults of the memory.
"""

from typing import ClassVar

from recollect.errors import InvalidArgumentError
from recollect.pipeline.context import RunContext, RunIds
from recollect.pipeline.processor import Processor
from recollect.scope import DEFAULT_THREAD, UNSET, Scope, Unset
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store

NOBODY = "thread-of-nobody:"
"""How the ids of users begin who stand for a thread without a user; no run may name such a user."""


def resolve_scope(run: RunIds, defaults: RunIds, store: Store) -> Scope | None:
    """Return the scope of a run, or None where neither side names a user or a thread.

    A user without a thread means that user's thread `default`. The thread of the defaults belongs to the
    user of the defaults, and is never used for another. A thread without a user is nobody else's: it has a
    user of its own, `thread-of-nobody:` and the thread's id, which cannot be named by a run.
    """
    user = _named_user(run) or _named_user(defaults)
    thread = run.thread_id
    if thread is None and run.resource_id in (None, defaults.resource_id):
        thread = defaults.thread_id
    if user is None and thread is None:
        return None
    return Scope(
        _tenant(run, defaults, store),
        user or f"{NOBODY}{thread}",
        thread or DEFAULT_THREAD,
        run.app_id,
        run.project_id,
    )


def _named_user(ids: RunIds) -> str | None:
    if ids.resource_id is not None and ids.resource_id.startswith(NOBODY):
        raise InvalidArgumentError("resource_id", f"must not begin with {NOBODY!r}")
    return ids.resource_id


def _tenant(run: RunIds, defaults: RunIds, store: Store) -> int | None:
    for ids in (run, defaults):
        if ids.tenant_id is not UNSET:
            return ids.tenant_id
    if store.engine_name == "postgresql":
        raise InvalidArgumentError(
            "tenant_id", "must be given on PostgreSQL; write tenant_id=None for data of no tenant"
        )
    return None


class MemoryProcessor(Processor):
    """The base of processors that read or write memory; they neither edit nor block what others say."""

    observes: ClassVar[bool] = True

    def __init__(
        self,
        storage: Store | StoreHandle | str,
        *,
        tenant_id: int | Unset | None = UNSET,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store or its address, and ids for runs that are given none."""
        self._handle = storage if isinstance(storage, StoreHandle) else StoreHandle(storage)
        self._defaults = RunIds(tenant_id, resource_id, thread_id)

    async def _memory_of(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        """Return the store, and whose memory the run is about: None where nobody is named."""
        store = await self._handle.get()
        return store, resolve_scope(ctx.ids, self._defaults, store)
