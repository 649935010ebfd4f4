"""What a person can do with changes of curated memory: approve, reject and undo them."""

from collections.abc import Sequence

from recollect.backends.curated.entries import (
    FILE_NAMES,
    TARGETS,
    Change,
    Edit,
    InvalidChange,
    diff_entries,
    revert_edits,
)
from recollect.backends.curated.folder import CuratedFolder, LockedFolder, plan_change
from recollect.backends.curated.journal import LoggedChange, Source, new_change, new_id
from recollect.backends.curated.queue import PendingChange
from recollect.errors import MemoryNotFoundError, StaleChangeError, StorageFullError
from recollect.messages import now

MAX_PENDING = 200
"""The maximum number of changes that wait for approval."""


def enqueue(folder: CuratedFolder, changes: Sequence[Change], source: Source) -> None:
    """Queue the changes of a run for approval, each once; raises an error if the queue is full."""
    problems: list[str] = []
    with folder.lock() as locked:
        waiting = list(folder.pending(locked.history))
        known = {(one.run_id, one.session_id, one.change.target) for one in waiting}
        fresh = [
            change
            for change in changes
            if (source.run_id, source.session_id, change.target) not in known
            and not locked.history.has_run(source, change.target)
        ]
        fresh = [
            change
            for change in _select_effective(locked, fresh, problems)
            if change not in [one.change for one in waiting]
        ]
        if len(waiting) + len(fresh) > MAX_PENDING:
            raise StorageFullError(
                f"{len(waiting)} changes of curated memory already wait; decide on them with "
                "`recollect memory approve` and `recollect memory reject` first"
            )
        at = now().isoformat()
        for change in fresh:
            limit = folder.limits[change.target]
            waiting.append(PendingChange(new_id(), at, source.run_id, source.session_id, limit, change))
        if fresh:
            folder.queue.write(waiting)
    if problems:
        raise StaleChangeError("; ".join(problems))


def _select_effective(locked: LockedFolder, changes: Sequence[Change], problems: list[str]) -> list[Change]:
    """Return the changes that change something, and add a problem for each that no longer fits."""
    entries = {change.target: locked.entries(change.target) for change in changes}
    found: list[Change] = []
    for change in changes:
        target = change.target
        made = plan_change(entries[target], change, locked.folder.limits[target])
        if isinstance(made, InvalidChange):
            name = FILE_NAMES[target]
            problems.append(f"a change no longer fits {name} and does not wait for approval: {made.problem}")
        elif made.entries != entries[target]:
            entries[target] = made.entries
            found.append(change)
    return found


def preview_pending(folder: CuratedFolder) -> list[tuple[PendingChange, tuple[Edit, ...] | InvalidChange]]:
    """Return each pending change, and its edits if all changes before it were approved."""
    entries = {target: folder.readable_entries(target) or () for target in TARGETS}
    found: list[tuple[PendingChange, tuple[Edit, ...] | InvalidChange]] = []
    for one in folder.pending():
        target = one.change.target
        made = plan_change(entries[target], one.change, one.limit)
        if isinstance(made, InvalidChange):
            found.append((one, made))
        else:
            found.append((one, diff_entries(entries[target], made.entries)))
            entries[target] = made.entries
    return found


def approve(folder: CuratedFolder, pending_id: str) -> LoggedChange | None:
    """Make a pending change; returns None if it changes nothing any more."""
    with folder.lock() as locked:
        one, rest = _take(locked, pending_id)
        target = one.change.target
        entries = locked.entries(target)
        made = plan_change(entries, one.change, one.limit)
        if isinstance(made, InvalidChange):
            raise StaleChangeError(
                f"{FILE_NAMES[target]}: {made.problem}. The change still waits; reject it, or change the file"
            )
        logged = None
        if made.entries != entries:
            source = Source("approved", one.run_id, one.session_id, one.id)
            edits = diff_entries(entries, made.entries)
            logged = new_change(target, source, (entries, made.entries), edits, new_id())
            locked.write(target, [logged], made.entries)
        folder.queue.write(rest)
        return logged


def reject(folder: CuratedFolder, pending_id: str) -> PendingChange:
    """Drop a pending change; the log records the rejection without its text."""
    with folder.lock() as locked:
        one, rest = _take(locked, pending_id)
        source = Source("rejected", one.run_id, one.session_id, one.id)
        folder.journal.append([new_change(one.change.target, source, ((), ()), (), new_id())])
        folder.queue.write(rest)
        return one


def undo(folder: CuratedFolder, change_id: str | None = None) -> LoggedChange:
    """Undo the change with this id, or else the model's last change that is not undone yet."""
    with folder.lock() as locked:
        change = _find_change_to_undo(locked.history.changes, change_id)
        entries = locked.entries(change.target)
        reverted = revert_edits(entries, change.edits)
        if reverted is None or reverted == entries:
            raise StaleChangeError(
                f"change {change.id} of {FILE_NAMES[change.target]} cannot be undone: what it wrote was "
                "changed or removed since. Undo the later change first, or edit the file"
            )
        edits = diff_entries(entries, reverted)
        source = Source("undo", undoes=change.id)
        logged = new_change(change.target, source, (entries, reverted), edits, new_id())
        locked.write(change.target, [logged], reverted)
        return logged


def _take(locked: LockedFolder, pending_id: str) -> tuple[PendingChange, list[PendingChange]]:
    waiting = locked.folder.pending(locked.history)
    for one in waiting:
        if one.id == pending_id:
            return one, [other for other in waiting if other is not one]
    raise MemoryNotFoundError(
        f"no change {pending_id!r:.60} waits; `recollect memory approve` lists those that do"
    )


def _find_change_to_undo(changes: Sequence[LoggedChange], change_id: str | None) -> LoggedChange:
    undone = _find_undone(changes)
    can_be = [
        change
        for change in changes
        if change.is_applied and change.id not in undone and change.source.kind != "rejected"
    ]
    if change_id is None:
        for change in reversed(can_be):
            if change.source.kind in {"tool", "approved"}:
                return change
        raise MemoryNotFoundError("there is no change to undo; `recollect memory log` lists all")
    for change in can_be:
        if change.id == change_id:
            return change
    raise MemoryNotFoundError(
        f"no change {change_id!r:.60} can be undone; `recollect memory log` lists all, and which were"
    )


def _find_undone(changes: Sequence[LoggedChange]) -> set[str]:
    """Return the ids of the undone changes; an undo that was itself undone does not count."""
    undone: set[str] = set()
    for change in reversed(changes):
        if change.is_applied and change.source.undoes and change.id not in undone:
            undone.add(change.source.undoes)
    return undone
