"""The folder of curated memory: both files, the log of their changes and the queue, changed under one lock.

Everything here waits for the disk and for other writers, so an event loop calls it in a thread.
"""

import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from recollect.backends.curated.entries import (
    FILE_NAMES,
    LIMITS,
    TARGETS,
    Change,
    InvalidChange,
    ParsedFile,
    Plan,
    Target,
    diff_entries,
    plan,
)
from recollect.backends.curated.files import (
    CuratedFile,
    FileState,
    lock_folders,
    make_folder,
    remove_leftovers,
)
from recollect.backends.curated.journal import (
    LOG_LIMIT,
    History,
    Journal,
    LoggedChange,
    Source,
    is_too_long,
    new_change,
    new_id,
    shorten,
)
from recollect.backends.curated.queue import PendingChange, Queue
from recollect.backends.curated.snapshot import find_threat
from recollect.errors import (
    RecollectError,
    StaleChangeError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
    combine_errors,
)

_log = logging.getLogger("recollect")

LOCK_SECONDS = 10.0
"""How long a writer waits for others."""

_TRIES = 3  # an editor may save between reading and writing, which happens once and hardly twice


class CuratedFolder:
    """Where curated memory is kept."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Mapping[Target, int] = LIMITS,
        log_limit: int = LOG_LIMIT,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        """Name the folder, the limits of the files and the log, and how long to wait for other writers."""
        self.path = folder
        self.limits = dict(limits)
        self.files = {target: CuratedFile(folder / name) for target, name in FILE_NAMES.items()}
        self.journal = Journal(folder / "changes.jsonl")
        self.queue = Queue(folder / "pending.json")
        self.log_limit = log_limit
        self._lock_seconds = lock_seconds

    def read(self, target: Target) -> ParsedFile:
        """Return what a file holds now; a reader waits for nobody."""
        return self.files[target].read()

    def history(self) -> History:
        """Return what the log says."""
        return self.journal.read({target: self.readable_entries(target) for target in TARGETS})

    def pending(self, history: History | None = None) -> tuple[PendingChange, ...]:
        """Return the changes that wait for a person, without those that the log says were decided."""
        changes = (history or self.history()).changes
        decided = {change.source.pending_id for change in changes if change.is_applied}
        return tuple(one for one in self.queue.read() if one.id not in decided)

    def check_writable(self) -> None:
        """Raise an error where it is plain that nothing can be written; all else shows at the write."""
        for file, place in zip(self.files.values(), self._list_folders()[1:], strict=True):
            # Only the folder itself is made where it is missing.
            if file.path.is_symlink() and not place.is_dir():
                raise StorageUnavailableError(
                    f"{file.path} is a link into the folder {place}, which is not there; make the folder, or "
                    "remove the link"
                )
        for place in self._list_folders():
            # Not `Path.exists`, which raises where a folder above may not be entered.
            there = next(one for one in (place, *place.parents) if os.access(one, os.F_OK))
            if not os.access(there, os.W_OK | os.X_OK):
                raise StorageReadOnlyError(
                    f"cannot write to {there}; give this user the right to write there"
                )
        log = self.journal.path
        if os.access(log, os.F_OK) and not os.access(log, os.R_OK | os.W_OK):
            raise StorageReadOnlyError(f"cannot read and write {log}; give this user the right to do both")

    @contextmanager
    def lock(self) -> Generator["LockedFolder"]:
        """Keep other writers out, and give what a change needs."""
        make_folder(self.path)
        places = self._list_folders()
        with lock_folders(places, self._lock_seconds):
            for place in places:
                remove_leftovers(place)
            history = self.history()
            self._shorten_log(history)
            yield LockedFolder(self, history)

    def _shorten_log(self, history: History) -> None:
        try:
            if is_too_long(self.journal, history, self.log_limit):
                # What the log says was decided would wait again without the log.
                if (waiting := self.pending(history)) != self.queue.read():
                    self.queue.write(waiting)
                shorten(self.journal, history, self.log_limit)
        except StorageError as error:
            # A log that is too long is no reason to refuse a change.
            _log.warning("the log of curated memory was not shortened: %s", error)

    def commit(self, changes: Sequence[Change], source: Source) -> list[LoggedChange]:
        """Make the changes of a run: each whole or not at all, each file written once, and never twice.

        What no longer fits is left out, and combine_errors when all the others are made.
        """
        problems: list[RecollectError] = []
        made: list[LoggedChange] = []
        with self.lock() as folder:
            for target in TARGETS:
                mine = [change for change in changes if change.target == target]
                if not mine or folder.history.has_run(source, target):
                    continue
                try:
                    made += folder.apply(target, mine, source, problems)
                except (StorageError, StaleChangeError) as error:
                    problems.append(error)
        if problems:
            raise combine_errors(problems)
        return made

    def _list_folders(self) -> list[Path]:
        # A file may be a link to one that is kept elsewhere, and that others link to as well.
        return [self.path, *(Path(os.path.realpath(file.path)).parent for file in self.files.values())]

    def readable_entries(self, target: Target) -> tuple[str, ...] | None:
        """Return the entries of a file, or None where it cannot be read."""
        try:
            return self.read(target).entries
        except StorageError:
            return None


@dataclass(slots=True)
class LockedFolder:
    """A folder that nobody else writes to."""

    folder: CuratedFolder
    history: History
    _read: dict[Target, FileState] = field(default_factory=dict[Target, FileState])

    def entries(self, target: Target) -> tuple[str, ...]:
        """Return what a file holds, if it may be changed."""
        if target not in self._read:
            self._read[target] = self.folder.files[target].read_to_change()
        return self._read[target].parsed.entries

    def apply(
        self, target: Target, changes: Sequence[Change], source: Source, problems: list[RecollectError]
    ) -> list[LoggedChange]:
        """Make those of the changes that fit a file, in one write, and add to the problems for the others."""
        for _ in range(_TRIES - 1):
            unfit: list[RecollectError] = []
            with suppress(StaleChangeError):
                made = self._apply_once(target, changes, source, unfit)
                problems += unfit
                return made
        return self._apply_once(target, changes, source, problems)

    def _apply_once(
        self, target: Target, changes: Sequence[Change], source: Source, problems: list[RecollectError]
    ) -> list[LoggedChange]:
        now, commit = self.entries(target), new_id()
        logged: list[LoggedChange] = []
        for change in changes:
            made = plan_change(now, change, self.folder.limits[target])
            if isinstance(made, InvalidChange):
                name = FILE_NAMES[target]
                problems.append(
                    StaleChangeError(f"a change no longer fits {name} and was not made: {made.problem}")
                )
            elif made.entries != now:
                edits = diff_entries(now, made.entries)
                logged.append(new_change(target, source, (now, made.entries), edits, commit))
                now = made.entries
        if logged:
            self.write(target, logged, now)
        return logged

    def write(self, target: Target, logged: Sequence[LoggedChange], entries: Sequence[str]) -> None:
        """Log changes, make them, and say that they were made.

        A `StaleChangeError` says that an editor was faster; the file is read anew then.
        """
        journal, file = self.folder.journal, self.folder.files[target]
        before = self.entries(target)
        size = journal.append([*self._find_manual_edits(target, before), *logged])
        try:
            file.write(entries, self._read[target])
        except StaleChangeError:
            del self._read[target]
            journal.truncate(size)
            raise
        except StorageError:
            if self.folder.readable_entries(target) == before:
                journal.truncate(size)
            raise
        journal.finish(logged[-1].commit)

    def _find_manual_edits(self, target: Target, now: tuple[str, ...]) -> list[LoggedChange]:
        """Describe what somebody has changed without logging it."""
        known = self.history.known[target]
        if known == now:
            return []
        # Where the log has a gap, it begins anew with all that is there.
        then = known or ()
        source = Source("by hand")
        return [new_change(target, source, (then, now), diff_entries(then, now), new_id())]


def plan_change(entries: Sequence[str], change: Change, limit: int) -> Plan | InvalidChange:
    """Return what a change makes of the entries, with all that is checked of a text."""
    return plan(entries, change.operations, limit=limit, scan=find_threat)
