"""The log of all changes of curated memory, one line of JSON each.

A change is logged and synced first, then made, then marked as done by another line. If a process is killed in
between, the file shows whether the change was made: each change has the hash of the state before and after
it. A change that nobody logged was made in an editor; the next change logs it too. So that the log does not
grow forever, its oldest changes are dropped, and it then begins with the entries that they had produced.
"""

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from recollect.backends.curated.entries import TARGETS, Edit, Target, apply_edits, fingerprint
from recollect.backends.curated.files import append_to_file, read_file, replace_file, truncate_file
from recollect.errors import StorageError
from recollect.messages import now

_log = logging.getLogger("recollect")
Kind: TypeAlias = Literal["tool", "approved", "rejected", "undo", "by hand"]
"""Who made a change: the model, the model with a person's approval, or a person."""
_KINDS: tuple[str, ...] = get_args(Kind)
_EMPTY = fingerprint(())
LOG_LIMIT = 1_000
"""How many of the newest changes the log keeps at least; older ones go when there are twice as many."""
_MAX_BYTES = 32 * 1024 * 1024  # half of what can still be read


@dataclass(frozen=True, slots=True)
class Source:
    """Where a change comes from: a run of a session, a person's decision, the change that is undone."""

    kind: Kind
    run_id: str = ""
    session_id: str = ""
    pending_id: str = ""
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change as it was logged; `is_applied` says whether it was made."""

    id: str
    commit: str
    at: str
    target: Target
    source: Source
    before: str
    after: str
    edits: tuple[Edit, ...]
    is_applied: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """The logged changes, and the entries of each file as the log knows them: None after a gap in the log.

    `initial` is what the files held before the first change.
    """

    changes: tuple[LoggedChange, ...]
    known: Mapping[Target, tuple[str, ...] | None]
    initial: Mapping[Target, tuple[str, ...]] = field(default_factory=dict[Target, tuple[str, ...]])

    def known_before(self, place: int) -> Mapping[Target, tuple[str, ...] | None]:
        """Return what the files held before the change at a place, as far as the log knows."""
        made = {change.commit for change in self.changes if change.is_applied}
        return _make_history(self.changes[:place], made, {}, self.initial).known

    def has_run(self, source: Source, target: Target) -> bool:
        """Whether a run has changed a file already, or a person has turned its change down."""
        return any(
            change.is_applied
            and change.target == target
            and (change.source.run_id, change.source.session_id) == (source.run_id, source.session_id)
            for change in self.changes
            if change.source.run_id
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """The file of the log; hold the lock of its folder to write it."""

    path: Path

    def read(self, current: Mapping[Target, Sequence[str] | None]) -> History:
        """Return all changes, and the entries that each file has as far as the log knows."""
        found = read_file(self.path)
        changes: list[LoggedChange] = []
        finished: set[str] = set()
        initial: dict[Target, tuple[str, ...]] = {}
        for number, line in enumerate((found.data if found else b"").splitlines(), 1):
            try:
                value = cast("dict[str, object]", json.loads(line))
                if isinstance(done := value.get("done"), str):
                    finished.add(done)
                elif "begun" in value:
                    initial |= _read_initial(value)
                else:
                    changes.append(_read_change(value))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                # A killed writer leaves half a line; what is whole still counts.
                _log.warning("line %d of %s cannot be read and is passed over", number, self.path)
        return _make_history(changes, finished, current, initial)

    def size(self) -> int:
        """Return the size in bytes, or 0 if it cannot be read."""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def replace(
        self, changes: Sequence[LoggedChange], initial: Mapping[Target, tuple[str, ...] | None]
    ) -> None:
        """Replace the whole log by these changes and the entries before them."""
        made = {change.commit: None for change in changes if change.is_applied}
        lines: list[Mapping[str, object]] = [
            *({"begun": target, "entries": entries} for target, entries in initial.items() if entries),
            *map(_to_json, changes),
            *({"done": commit} for commit in made),
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        replace_file(self.path, text.encode(), read_file(self.path))

    def append(self, changes: Sequence[LoggedChange]) -> int:
        """Log changes that are about to be made; returns the previous size, for `truncate`."""
        lines = [json.dumps(_to_json(change), ensure_ascii=False) for change in changes]
        return append_to_file(self.path, "".join(f"{line}\n" for line in lines).encode())

    def finish(self, commit: str) -> None:
        """Mark changes as made; if that line is lost in a crash, the file itself still shows it."""
        with suppress(StorageError):
            append_to_file(self.path, (json.dumps({"done": commit}) + "\n").encode(), sync=False)

    def truncate(self, size: int) -> None:
        """Remove changes that could not be made."""
        truncate_file(self.path, size)


def new_id() -> str:
    """Make an id that a person can type."""
    return secrets.token_hex(4)


def new_change(
    target: Target,
    source: Source,
    states: tuple[Sequence[str], Sequence[str]],
    edits: Sequence[Edit],
    commit: str,
) -> LoggedChange:
    """Describe a change from one state to another."""
    before, after = map(fingerprint, states)
    return LoggedChange(new_id(), commit, now().isoformat(), target, source, before, after, tuple(edits))


def logged_change_to_json(change: LoggedChange) -> dict[str, object]:
    """Return a logged change as JSON, with whether it was applied."""
    return _to_json(change) | {"applied": change.is_applied and change.source.kind != "rejected"}


def _make_history(
    changes: Sequence[LoggedChange],
    finished: set[str],
    current: Mapping[Target, Sequence[str] | None],
    initial: Mapping[Target, tuple[str, ...]],
) -> History:
    made: dict[str, bool] = {}
    known: dict[Target, tuple[str, ...] | None] = {}
    for target in TARGETS:
        mine = [change for change in changes if change.target == target and change.source.kind != "rejected"]
        commits = [list(group) for _, group in groupby(mine, key=lambda change: change.commit)]
        present = current.get(target)
        # The state after a commit is the one that the next began with; after the last, the file's own.
        ends = [*(group[0].before for group in commits[1:]), "" if present is None else fingerprint(present)]
        state: tuple[str, ...] | None = initial.get(target, ())
        for group, end in zip(commits, ends, strict=False):
            is_made = _is_applied(group, finished, end)
            made[group[0].commit] = is_made
            if is_made:
                state = _replay(state, group)
        known[target] = state
    return History(
        tuple(replace(change, is_applied=made.get(change.commit, True)) for change in changes), known, initial
    )


def _is_applied(group: Sequence[LoggedChange], finished: set[str], state_after: str) -> bool:
    first, last = group[0], group[-1]
    return first.source.kind == "by hand" or first.commit in finished or last.after == state_after


def _replay(state: tuple[str, ...] | None, group: Sequence[LoggedChange]) -> tuple[str, ...] | None:
    """Return the entries after the changes; after a gap, None until a change starts from an empty file."""
    if group[0].before == _EMPTY:
        state = ()
    for change in group:
        state = None if state is None else apply_edits(state, change.edits)
    return state if state is not None and fingerprint(state) == group[-1].after else None


def _to_json(change: LoggedChange) -> dict[str, object]:
    source = change.source
    return {
        "id": change.id,
        "commit": change.commit,
        "at": change.at,
        "kind": source.kind,
        "target": change.target,
        "run_id": source.run_id,
        "session_id": source.session_id,
        "pending_id": source.pending_id,
        "undoes": source.undoes,
        "before": change.before,
        "after": change.after,
        "edits": [{"place": one.place, "before": one.before, "after": one.after} for one in change.edits],
    }


def _read_initial(value: Mapping[str, object]) -> dict[Target, tuple[str, ...]]:
    target, entries = value["begun"], value["entries"]
    if target not in TARGETS or not isinstance(entries, list):
        raise ValueError
    return {target: tuple(_read_text(entry) for entry in cast("list[object]", entries))}


def _read_change(value: Mapping[str, object]) -> LoggedChange:
    texts = {
        name: _read_text(value[name]) for name in ("id", "commit", "at", "kind", "target", "before", "after")
    }
    if texts["kind"] not in _KINDS or texts["target"] not in TARGETS:
        raise ValueError
    source = Source(
        cast("Kind", texts["kind"]),
        *(_read_text(value[name]) for name in ("run_id", "session_id", "pending_id", "undoes")),
    )
    edits = tuple(_read_edit(one) for one in cast("list[dict[str, object]]", value["edits"]))
    return LoggedChange(
        texts["id"],
        texts["commit"],
        texts["at"],
        texts["target"],
        source,
        texts["before"],
        texts["after"],
        edits,
    )


def _read_edit(value: Mapping[str, object]) -> Edit:
    place, before, after = value["place"], value["before"], value["after"]
    if not isinstance(place, int):
        raise TypeError
    return Edit(
        place, None if before is None else _read_text(before), None if after is None else _read_text(after)
    )


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not value.isascii():
        value.encode()  # JSON can contain a lone surrogate, which cannot be encoded
    return value


def is_too_long(journal: Journal, history: History, limit: int) -> bool:
    """Whether to drop changes: at twice the limit, so that it happens rarely."""
    return len(history.changes) > 2 * limit or journal.size() > _MAX_BYTES


def shorten(journal: Journal, history: History, limit: int) -> None:
    """Drop the oldest changes; the caller must hold the lock of the folder."""
    changes = history.changes
    kept = min(limit, len(changes) // 2)  # few that are long are too much as well
    first = _find_commit_start(changes, len(changes) - max(1, kept))
    if first > 0:
        journal.replace(changes[first:], history.known_before(first))


def _find_commit_start(changes: Sequence[LoggedChange], place: int) -> int:
    """Return the last place up to this one at which a write begins: what was made together stays so."""
    while place > 0 and changes[place].commit == changes[place - 1].commit:
        place -= 1
    return place
