"""Whose data a call is about.

Every storage method takes a `Scope`, keyword-only and required, so that no call can mean
"everybody" by accident. Callers name a tenant by an int, a text or None. The database stores a text, and a
reserved one for None, because SQL's NULL equals nothing and so escapes unique, primary and foreign keys.
"""

import enum
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from recollect.errors import InvalidArgumentError
from recollect.validation import SYSTEM_TENANT, check_id, check_tenant

TenantId: TypeAlias = int | str | None
"""A tenant as callers name it; 1 and "1" are the same tenant, and None is the tenant of system data."""

DEFAULT_THREAD = "default"
"""The thread of a caller that names none."""


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""The default of a tenant argument: None is itself a tenant, so it cannot mean "not given"."""


class PerCall(enum.Enum):
    """The type of `PER_CALL`."""

    PER_CALL = "per call"


PER_CALL = PerCall.PER_CALL
"""The tenant of a memory of many tenants: each call must name its own."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A user of a tenant, and optionally one of the user's threads.

    `tenant_id` is a positive int, a text, or None for system data; what comes back keeps the caller's type.
    `thread_id=None` means all threads of the user; only methods that say so accept it.
    `app_id` and `project_id` split one user's threads into separate sets. `tenant_key` is the tenant as the
    key columns hold it.
    """

    tenant_id: TenantId
    user_id: str
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"
    tenant_key: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_tenant(self.tenant_id)
        object.__setattr__(self, "tenant_key", encode_tenant(self.tenant_id))
        check_id(self.user_id, "user_id")
        if self.thread_id is not None:
            check_id(self.thread_id, "thread_id")
        check_id(self.app_id, "app_id")
        check_id(self.project_id, "project_id")

    @property
    def key(self) -> tuple[str, str, str | None, str, str]:
        """The ids with the tenant's key; scopes of tenant 1 and tenant "1" have the same."""
        return (self.tenant_key, self.user_id, self.thread_id, self.app_id, self.project_id)

    @property
    def required_thread_id(self) -> str:
        """The thread; raises where the scope names none."""
        if self.thread_id is None:
            raise InvalidArgumentError("scope", "must name a thread here; thread_id is None")
        return self.thread_id

    def with_thread(self, thread_id: str | None) -> "Scope":
        """Return the scope with another thread, or None for all threads."""
        return replace(self, thread_id=thread_id)


def encode_tenant(tenant_id: TenantId) -> str:
    """Return a tenant as the key columns hold it; compare tenants by this: 1 and "1" are the same."""
    if tenant_id is None:
        return SYSTEM_TENANT
    # A member of an enum may be an int or a text too, with a str() and a hash of its own.
    return str.__str__(tenant_id) if isinstance(tenant_id, str) else int.__repr__(tenant_id)
