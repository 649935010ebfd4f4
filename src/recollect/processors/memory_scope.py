"""Whose memory a run is about: the run's own ids first, then the defaults of the memory."""

from recollect.errors import InvalidArgumentError
from recollect.processors.base import RunIds
from recollect.scope import DEFAULT_THREAD, UNSET, Scope
from recollect.storage.base import Store


def resolve_scope(run: RunIds, defaults: RunIds, store: Store) -> Scope | None:
    """Return the scope of a run, or None where neither side names a user or a thread.

    A user without a thread means that user's thread `default`. The thread of the defaults belongs to the
    user of the defaults, and is never used for another. A thread without a user is its own user's.
    """
    user = run.resource_id or defaults.resource_id
    thread = run.thread_id
    if thread is None and run.resource_id in (None, defaults.resource_id):
        thread = defaults.thread_id
    if user is None and thread is None:
        return None
    return Scope(
        _tenant(run, defaults, store),
        user or str(thread),
        thread or DEFAULT_THREAD,
        run.app_id,
        run.project_id,
    )


def _tenant(run: RunIds, defaults: RunIds, store: Store) -> int | None:
    for ids in (run, defaults):
        if ids.tenant_id is not UNSET:
            return ids.tenant_id
    if store.engine_name == "postgresql":
        raise InvalidArgumentError(
            "tenant_id", "must be given on PostgreSQL; write tenant_id=None for data of no tenant"
        )
    return None
