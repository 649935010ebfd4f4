"""What memory's processors share: the store, and the rule whose memory a run reads and writes.

A call may name its user and its thread. An id that it leaves out comes from the memory. The tenant comes from
the memory too. With `PER_CALL` each call must name it: a call that forgets it raises, and reads no rows.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, TypedDict

from recollect.errors import InvalidArgumentError
from recollect.pipeline.context import RunContext, RunIds, choose_user_id
from recollect.pipeline.processor import Processor
from recollect.scope import DEFAULT_THREAD, PER_CALL, UNSET, PerCall, Scope, TenantId, encode_tenant
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.storage.store import Store
from recollect.validation import check_id, check_tenant

ANONYMOUS_PREFIX = "thread-of-nobody:"
"""Begins the id of the user that stands for a thread without one; no run may name such a user."""

_NO_USER = (
    "is missing, and a memory on a file or a server needs it: give user_id with the call, or once for a "
    'program with one user, as in Memory(…, user_id="me")'
)
_NO_TENANT = "is missing: this memory has tenant_id=PER_CALL, so each call names its tenant, or None"


class OwnerIds(TypedDict, total=False):
    """The owner's ids as keyword arguments of processors; `resource_id` is another name of `user_id`."""

    tenant_id: TenantId | PerCall
    user_id: str | None
    resource_id: str | None
    thread_id: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: its tenant, and the default user and thread of calls."""

    tenant_id: TenantId | PerCall = None
    user_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        if self.tenant_id is not PER_CALL:
            check_tenant(self.tenant_id)
        if self.user_id is not None:
            check_id(_check_user(self.user_id), "user_id")
        if self.thread_id is not None:
            check_id(self.thread_id, "thread_id")


def resolve_scope(run: RunIds, owner: Owner, *, is_in_memory: bool) -> Scope | None:
    """Return the scope of a run, or None if neither the run nor the owner names a user or a thread.

    run names      owner names              scope
    user "ada"     nothing                  user ada, thread default
    nothing        user "ada", thread "t"   user ada, thread t
    user "bob"     user "ada", thread "t"   user bob, thread default: t belongs to ada
    thread "t"     nothing                  user thread-of-nobody:t, thread t (only in memory)
    """
    tenant = resolve_tenant(run, owner)
    user = _check_user(run.user_id) or owner.user_id
    thread = run.thread_id
    if thread is None and run.user_id in (None, owner.user_id):
        thread = owner.thread_id
    if user is None:
        if thread is None:
            return None
        if not is_in_memory:
            raise InvalidArgumentError("user_id", _NO_USER)
        user = f"{ANONYMOUS_PREFIX}{thread}"
    return Scope(tenant, user, thread or DEFAULT_THREAD, run.app_id, run.project_id)


def _check_user(user_id: str | None) -> str | None:
    if user_id is not None and user_id.startswith(ANONYMOUS_PREFIX):
        raise InvalidArgumentError("user_id", f"must not begin with {ANONYMOUS_PREFIX!r}")
    return user_id


def resolve_tenant(run: RunIds, owner: Owner) -> TenantId:
    """Return the tenant of a run, with the type that the run gave it if it names one."""
    if run.tenant_id is UNSET:
        if owner.tenant_id is PER_CALL:
            raise InvalidArgumentError("tenant_id", _NO_TENANT)
        return owner.tenant_id
    if owner.tenant_id is not PER_CALL and encode_tenant(run.tenant_id) != encode_tenant(owner.tenant_id):
        raise InvalidArgumentError(
            "tenant_id",
            f"is {run.tenant_id!r:.60}, but this memory belongs to tenant {owner.tenant_id!r:.60}; for many "
            "tenants make the memory with tenant_id=PER_CALL",
        )
    return run.tenant_id


class MemoryProcessor(Processor):
    """The base of processors that read or write memory; they neither edit nor block other messages."""

    observes: ClassVar[bool] = True

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        tenant_id: TenantId | PerCall = None,
        user_id: str | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store, its URL or a path, its tenant, and the ids of runs that name none."""
        self._handle = store if isinstance(store, StoreHandle) else StoreHandle(store)
        self._owner = Owner(tenant_id, choose_user_id(user_id, resource_id), thread_id)

    def _resolve_scope(self, ctx: RunContext) -> Scope | None:
        """Return the scope of the run, or None if nobody names a user or a thread."""
        return resolve_scope(ctx.ids, self._owner, is_in_memory=self._handle.is_in_memory)

    async def _open(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        scope = self._resolve_scope(ctx)
        return await self._handle.get(), scope

    async def _open_to_read(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        """Open the store, and pin the user's erase epoch if this is the first reading of the run."""
        store, scope = await self._open(ctx)
        if scope is not None and self._pin_key(scope) not in ctx.pins:
            self._pin(await store.erase_epoch(scope=scope), scope, ctx)
        return store, scope

    def _pin(self, erase_epoch: int | None, scope: Scope, ctx: RunContext) -> None:
        """Keep the erase epoch of the first reading: nothing is written if the user is erased after it."""
        ctx.pins.setdefault(self._pin_key(scope), erase_epoch)

    def _get_pinned(self, scope: Scope, ctx: RunContext) -> int | None:
        """Return the pinned erase epoch; None if nothing was read, or the user had no data then."""
        return ctx.pins.get(self._pin_key(scope))

    def _pin_key(self, scope: Scope) -> Hashable:
        return self._handle.database, scope.tenant_key, scope.user_id
