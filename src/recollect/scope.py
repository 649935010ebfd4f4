"""Whose data a call is about.

Every storage method takes a `Scope`, keyword-only and required, so that no call can mean
"everybody" by accident. The database stores the tenant None as the reserved tenant 0, because
SQL's NULL equals nothing and so escapes unique, primary and foreign keys.
"""

import enum
from dataclasses import dataclass, replace

from recollect.errors import InvalidArgumentError
from recollect.validation import check_id, check_tenant

DEFAULT_THREAD = "default"
"""The thread of a caller that names none."""

SYSTEM_TENANT = 0
"""The tenant None in key columns; real tenants begin at 1."""


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

    `thread_id=None` means all threads of the user; only methods that say so accept it.
    `app_id` and `project_id` split one user's threads into separate sets.
    """

    tenant_id: int | None
    user_id: str
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"

    def __post_init__(self) -> None:
        check_tenant(self.tenant_id)
        check_id(self.user_id, "user_id")
        if self.thread_id is not None:
            check_id(self.thread_id, "thread_id")
        check_id(self.app_id, "app_id")
        check_id(self.project_id, "project_id")

    @property
    def tenant_key(self) -> int:
        """The tenant as the key columns hold it."""
        return SYSTEM_TENANT if self.tenant_id is None else self.tenant_id

    @property
    def required_thread_id(self) -> str:
        """The thread; raises where the scope names none."""
        if self.thread_id is None:
            raise InvalidArgumentError("scope", "must name a thread here; thread_id is None")
        return self.thread_id

    def with_thread(self, thread_id: str | None) -> "Scope":
        """Return the scope with another thread, or None for all threads."""
        return replace(self, thread_id=thread_id)


def tenant_of_key(tenant_key: int) -> int | None:
    """Return the tenant of a key column's value: the inverse of `Scope.tenant_key`."""
    return None if tenant_key == SYSTEM_TENANT else tenant_key
