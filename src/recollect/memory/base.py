"""What memory's processors share: the store, and whose memory a run is about.

A call may name its user and its thread; what it leaves out is the memory's own. The tenant is the memory's,
or with `PER_CALL` that of each call: a forgotten one never reaches the rows of another.
"""

from dataclasses import dataclass
from typing import ClassVar, TypedDict

from recollect.errors import InvalidArgumentError
from recollect.pipeline.context import RunContext, RunIds, one_user_id
from recollect.pipeline.processor import Processor
from recollect.scope import DEFAULT_THREAD, PER_CALL, UNSET, PerCall, Scope
from recollect.storage.opening import Place, StoreHandle
from recollect.storage.store import Store
from recollect.validation import check_id, check_tenant

NOBODY = "thread-of-nobody:"
"""How the ids of users begin who stand for a thread without a user; no run may name such a user."""

_NO_USER = (
    "is missing, and a memory on a file or a server needs it: give user_id with the call, or once for a "
    'program with one user, as in Memory(…, user_id="me")'
)
_NO_TENANT = "is missing: this memory has tenant_id=PER_CALL, so each call names its tenant, or None"


class OwnerIds(TypedDict, total=False):
    """Whose memory it is, as keyword arguments of processors; `resource_id` is another name of `user_id`."""

    tenant_id: int | PerCall | None
    user_id: str | None
    resource_id: str | None
    thread_id: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is: its tenant, and the user and thread of calls that name none."""

    tenant_id: int | PerCall | None = None
    user_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        if self.tenant_id is not PER_CALL:
            check_tenant(self.tenant_id)
        if self.user_id is not None:
            check_id(_checked_user(self.user_id), "user_id")
        if self.thread_id is not None:
            check_id(self.thread_id, "thread_id")


def resolve_scope(run: RunIds, owner: Owner, *, is_in_memory: bool) -> Scope | None:
    """Return the scope of a run, or None where neither side names a user or a thread.

    A user without a thread means that user's thread `default`. The owner's thread belongs to the owner's
    user, and is never used for another. A thread without a user is nobody else's: in memory it has a user of
    its own, `thread-of-nobody:` and the thread's id, which cannot be named by a run.
    """
    tenant = _tenant(run, owner)
    user = _checked_user(run.user_id) or owner.user_id
    thread = run.thread_id
    if thread is None and run.user_id in (None, owner.user_id):
        thread = owner.thread_id
    if user is None:
        if thread is None:
            return None
        if not is_in_memory:
            raise InvalidArgumentError("user_id", _NO_USER)
        user = f"{NOBODY}{thread}"
    return Scope(tenant, user, thread or DEFAULT_THREAD, run.app_id, run.project_id)


def _checked_user(user_id: str | None) -> str | None:
    if user_id is not None and user_id.startswith(NOBODY):
        raise InvalidArgumentError("user_id", f"must not begin with {NOBODY!r}")
    return user_id


def _tenant(run: RunIds, owner: Owner) -> int | None:
    if owner.tenant_id is PER_CALL:
        if run.tenant_id is UNSET:
            raise InvalidArgumentError("tenant_id", _NO_TENANT)
        return run.tenant_id
    if run.tenant_id not in (UNSET, owner.tenant_id):
        raise InvalidArgumentError(
            "tenant_id",
            f"is {run.tenant_id}, but this memory is of tenant {owner.tenant_id}; for many tenants write "
            "tenant_id=PER_CALL where the memory is made",
        )
    return owner.tenant_id


class MemoryProcessor(Processor):
    """The base of processors that read or write memory; they neither edit nor block what others say."""

    observes: ClassVar[bool] = True

    def __init__(
        self,
        store: Place | StoreHandle,
        *,
        tenant_id: int | PerCall | None = None,
        user_id: str | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store, its URL or a path, its tenant, and ids for runs that are given none."""
        self._handle = store if isinstance(store, StoreHandle) else StoreHandle(store)
        self._owner = Owner(tenant_id, one_user_id(user_id, resource_id), thread_id)

    def _scope_of(self, ctx: RunContext) -> Scope | None:
        """Return whose memory the run is about: None where nobody is named."""
        return resolve_scope(ctx.ids, self._owner, is_in_memory=self._handle.is_in_memory)

    async def _memory_of(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        scope = self._scope_of(ctx)
        return await self._handle.get(), scope
