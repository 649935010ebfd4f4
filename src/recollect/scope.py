"""Whose data a call is about.

Every storage method takes a `Scope`, keyword-only and required: there is no call that
means "everybody". Inside the database None is the reserved tenant 0, because SQL's NULL
is equal to nothing and slips through unique, primary and foreign keys.
"""

import enum
from dataclasses import dataclass, replace

from recollect.errors import InvalidArgumentError
from recollect.validation import check_id, check_tenant

DEFAULT_THREAD = "default"
"""The thread of a user for whom no thread was named."""

SYSTEM_TENANT = 0
"""How the tenant None is written in key columns; no real tenant can have it."""


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""Stands for a tenant that was not given, because None is one."""


class PerCall(enum.Enum):
    """The type of `PER_CALL`."""

    PER_CALL = "per call"


PER_CALL = PerCall.PER_CALL
"""The tenant of a memory of many tenants: each call must name its own."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One tenant's user, and within it maybe one thread.

    `thread_id=None` means all threads of the user, and is accepted only by the methods
    that say so. `app_id` and `project_id` split one user's threads into separate sets.
    """

    tenant_id: int | None
    user_id: str
    thread_id: str | None = None
    app_id: str = "default"
    project_id: str = "default"

    def __post_init__(self) -> None:
        """Refuse ids that could not be stored or told apart."""
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
        """The thread, or an error where the scope names none."""
        if self.thread_id is None:
            raise InvalidArgumentError("scope", "must name a thread here (thread_id is None)")
        return self.thread_id

    def with_thread(self, thread_id: str | None) -> "Scope":
        """Return the same user's scope with another thread, or with all of them."""
        return replace(self, thread_id=thread_id)


def tenant_of_key(tenant_key: int) -> int | None:
    """Return the tenant that a key column's value stands for."""
    return None if tenant_key == SYSTEM_TENANT else tenant_key
