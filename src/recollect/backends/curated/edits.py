"""What differs between two lists of entries, written down so that it can be shown, repeated and undone."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry that was added (no `before`), removed (no `after`) or changed, at a place of the list.

    The places of several edits are those at the time of each, from first to last.
    """

    place: int
    before: str | None
    after: str | None


def edits_between(old: Sequence[str], new: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits that make the new entries of the old ones."""
    # What both begin and end with is left out: many equal entries would cost their number squared.
    first = _shared(old, new)
    last = _shared(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    edits: list[Edit] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        paired, place = min(i2 - i1, j2 - j1), first + j1
        edits += [Edit(place + k, old[i1 + k], new[j1 + k]) for k in range(paired)]
        edits += [Edit(place + paired, old[i], None) for i in range(i1 + paired, i2)]
        edits += [Edit(first + j, None, new[j]) for j in range(j1 + paired, j2)]
    return tuple(edits)


def apply_edits(entries: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...] | None:
    """Return what the edits make of the entries, or None if they were made for others."""
    now = list(entries)
    for edit in edits:
        end = edit.place + (edit.before is not None)
        if edit.place < 0 or end > len(now) or now[edit.place : end] != _listed(edit.before):
            return None
        now[edit.place : end] = _listed(edit.after)
    return tuple(now)


def revert_edits(entries: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...] | None:
    """Return the entries without the edits, also if others were made since; None if these are not there."""
    exactly = apply_edits(entries, [Edit(one.place, one.after, one.before) for one in reversed(edits)])
    if exactly is not None:
        return exactly
    added = {edit.after for edit in edits if edit.before is None}
    # An entry that was only moved may stay where it is.
    moved = added & {edit.before for edit in edits if edit.after is None}
    now = list(entries)
    for edit in reversed(edits):
        if (edit.before is None or edit.after is None) and moved & {edit.before, edit.after}:
            continue
        if edit.after is not None:
            if edit.after not in now:
                return None
            is_at_place = edit.place < len(now) and now[edit.place] == edit.after
            place = edit.place if is_at_place else now.index(edit.after)
            # Somebody may have written again what stood there before.
            now[place : place + 1] = [] if edit.before in now else _listed(edit.before)
        elif edit.before is not None and edit.before not in now:
            now.insert(edit.place, edit.before)
    return tuple(now)


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many entries both begin with."""
    pairs = zip(old, new, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def _listed(entry: str | None) -> list[str]:
    return [] if entry is None else [entry]
