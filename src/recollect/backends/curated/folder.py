"""The folder of curated memory: both files, the log of their changes and the queue, changed under one lock.

Everything here blocks on the disk and on other writers, so async code must call it in a thread.
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
    remove_file,
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

_TRIES = 3  # an editor may save between our read and our write; that hardly happens twice in a row


class CuratedFolder:
    """The files of curated memory, and all changes of them."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Mapping[Target, int] = LIMITS,
        log_limit: int = LOG_LIMIT,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.path = folder
        self.limits = dict(limits)
        self.files = {target: CuratedFile(folder / name) for target, name in FILE_NAMES.items()}
        self.journal = Journal(folder / "changes.jsonl")
        self.queue = Queue(folder / "pending.json")
        self.log_limit = log_limit
        self._lock_seconds = lock_seconds

    def read(self, target: Target) -> ParsedFile:
        """Return the current content of a file; reading takes no lock."""
        return self.files[target].read()

    def history(self) -> History:
        """Return the logged changes."""
        return self.journal.read({target: self.readable_entries(target) for target in TARGETS})

    def pending(self, history: History | None = None) -> tuple[PendingChange, ...]:
        """Return the changes that wait for approval, without those that the log shows as decided."""
        changes = (history or self.history()).changes
        decided = {change.source.pending_id for change in changes if change.is_applied}
        return tuple(one for one in self.queue.read() if one.id not in decided)

    def check_writable(self) -> None:
        """Raise an error if a write is bound to fail; other problems show up at the write."""
        for file, place in zip(self.files.values(), self._list_folders()[1:], strict=True):
            # A write makes the folder itself if it is missing, but not the target folder of a link.
            if file.path.is_symlink() and not place.is_dir():
                raise StorageUnavailableError(
                    f"{file.path} is a link into the folder {place}, which is not there; make the folder, or "
                    "remove the link"
                )
        for place in self._list_folders():
            # Not `Path.exists`, which raises where a folder above may not be entered.
            there = next(one for one in (place, *place.parents) if os.access(one, os.F_OK))
            if not os.access(there, os.W_OK | os.X_OK):
                raise StorageReadOnlyError(f"cannot write to {there}; give this user write permission there")
        log = self.journal.path
        if os.access(log, os.F_OK) and not os.access(log, os.R_OK | os.W_OK):
            raise StorageReadOnlyError(f"cannot read and write {log}; give this user both permissions")

    @contextmanager
    def lock(self) -> Generator["LockedFolder"]:
        """Keep other writers out, clean up, and provide the folder for changes."""
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
                # Drop decided changes from the queue first: without their log entry they would wait again.
                if (waiting := self.pending(history)) != self.queue.read():
                    self.queue.write(waiting)
                shorten(self.journal, history, self.log_limit)
        except StorageError as error:
            # A log that is too long is no reason to reject a change.
            _log.warning("the log of curated memory was not shortened: %s", error)

    def commit(self, changes: Sequence[Change], source: Source) -> list[LoggedChange]:
        """Make the changes of a run with one write per file; a run that is repeated changes nothing.

        A change that no longer fits is skipped. After all others are made, an error reports it.
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

    def erase_user(self) -> list[Path]:
        """Remove `USER.md` with its copies, the log and the queue, and return what was there.

        The log and the queue quote both files. `MEMORY.md` stays: it has the model's own notes.
        """
        with self.lock():
            user = self.files["user"].path
            copies = sorted(self.path.glob(f"{user.name}.*.bak"))
            paths = [user, *copies, self.journal.path, self.queue.path]
            return [path for path in paths if remove_file(path)]

    def _list_folders(self) -> list[Path]:
        # A file may be a symlink into another folder, whose file others may link to as well.
        return [self.path, *(Path(os.path.realpath(file.path)).parent for file in self.files.values())]

    def readable_entries(self, target: Target) -> tuple[str, ...] | None:
        """Return the entries of a file, or None if it cannot be read."""
        try:
            return self.read(target).entries
        except StorageError:
            return None


@dataclass(slots=True)
class LockedFolder:
    """A folder whose lock is held: nobody else writes to it."""

    folder: CuratedFolder
    history: History
    _read: dict[Target, FileState] = field(default_factory=dict[Target, FileState])

    def entries(self, target: Target) -> tuple[str, ...]:
        """Return the entries of a file; raises an error if the file must not be changed."""
        if target not in self._read:
            self._read[target] = self.folder.files[target].read_to_change()
        return self._read[target].parsed.entries

    def apply(
        self, target: Target, changes: Sequence[Change], source: Source, problems: list[RecollectError]
    ) -> list[LoggedChange]:
        """Make the changes that fit a file in one write, and add a problem for each of the others."""
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
        """Log the changes, write the file, and mark the changes as made.

        Raises `StaleChangeError` if an editor has saved the file meanwhile; the next call reads it again.
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
        """Return what somebody has changed in an editor since the last logged change."""
        known = self.history.known[target]
        if known == now:
            return []
        # After a gap in the log, all present entries are logged as new.
        then = known or ()
        source = Source("by hand")
        return [new_change(target, source, (then, now), diff_entries(then, now), new_id())]


def plan_change(entries: Sequence[str], change: Change, limit: int) -> Plan | InvalidChange:
    """Plan a change, and scan its new texts for attacks."""
    return plan(entries, change.operations, limit=limit, scan=find_threat)
