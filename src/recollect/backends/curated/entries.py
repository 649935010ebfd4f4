"""The entries of a curated file: parsing, planning changes, and comparing. Pure functions, no file access.

A line with a single § separates two entries. A file is changed only if parsing it and writing it back gives
the same text, so that nothing a person wrote is lost. Three exceptions are accepted and preserved: a byte
order mark, line breaks at the end, and a file of nothing but whitespace, which counts as empty.

A change is a list of operations; either all of them are made or none. The reason why a change is invalid also
says what to do, because a model reads it. The edits between two lists of entries can be shown, repeated and
undone.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

from recollect.errors import InvalidArgumentError
from recollect.validation import check_text

Target: TypeAlias = Literal["memory", "user"]
"""Which of the two files: the agent's own notes, or what it knows about the user."""

TARGETS: tuple[Target, ...] = get_args(Target)
"""Both targets."""

FILE_NAMES: Mapping[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
"""The file of each target."""

LIMITS: Mapping[Target, int] = {"memory": 2200, "user": 1375}
"""The default maximum length of each file in characters, delimiters included."""

SECTION_SIGN = "§"
"""The character that is alone on the line between two entries."""

DELIMITER = f"\n{SECTION_SIGN}\n"
"""The text between two entries."""

_BYTE_ORDER_MARK = "\ufeff"


class ParsedFile(NamedTuple):
    """The content of a file; `problem` says why the file must not be written, or is None."""

    entries: tuple[str, ...] = ()
    start: str = ""
    ending: str = ""
    problem: str | None = None


def parse(text: str) -> ParsedFile:
    """Parse a file's text; the entries are filled in even if the file must not be written."""
    start = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    body = text.removeprefix(start)
    kept = body.rstrip("\n")
    ending = body[len(kept) :]
    if not body.strip():
        return ParsedFile((), start, ending)
    entries = tuple(filter(None, (part.strip() for part in kept.split(DELIMITER))))
    return ParsedFile(entries, start, ending, _find_problem(entries, kept))


def serialise(entries: Sequence[str], start: str = "", ending: str = "") -> str:
    """Return the text of a file."""
    return f"{start}{DELIMITER.join(entries)}{ending}"


def count_characters(entries: Sequence[str]) -> int:
    """Return how many characters count against the limit."""
    return len(serialise(entries))


def describe_usage(entries: Sequence[str], limit: int) -> str:
    """Return how full a file is, such as `1% — 15/1375 chars`."""
    size = count_characters(entries)
    return f"{100 * size // limit}% — {size}/{limit} chars"


def fingerprint(entries: Sequence[str]) -> str:
    """Return a hash of the entries; equal hashes mean equal files."""
    return hashlib.sha256(serialise(entries).encode()).hexdigest()[:24]


def find_entry_problem(text: str) -> str | None:
    """Return why a text cannot be an entry of a file, or None."""
    if not text.strip():
        return "is empty"
    if text != text.strip() or text.startswith(_BYTE_ORDER_MARK):
        return "begins or ends with whitespace"
    if any(line.strip() == SECTION_SIGN for line in text.splitlines()):
        return f"has a line with nothing but {SECTION_SIGN}, which separates entries"
    return None


def _find_problem(entries: Sequence[str], kept: str) -> str | None:
    problem = _find_first_problem(entries, kept)
    # Carriage returns cause the other problems, and nobody sees them in an editor.
    return "it has Windows line ends" if problem and "\r" in kept else problem


def _find_first_problem(entries: Sequence[str], kept: str) -> str | None:
    for place, entry in enumerate(entries, 1):
        if problem := find_entry_problem(entry):
            return f"entry {place} {problem}"
    if serialise(entries) != kept:
        return f"it has empty entries, or blank space at the start or around a line with {SECTION_SIGN}"
    return None


Action: TypeAlias = Literal["add", "replace", "remove"]
"""What an operation does with an entry."""

ACTIONS: tuple[Action, ...] = get_args(Action)
"""All actions."""

Scan: TypeAlias = Callable[[str], str | None]
"""Returns what is wrong with a text before it is written, or None."""

MAX_OPERATIONS = 100
"""How many operations one change may have."""

_PREVIEW = 80
_NEEDS_OLD_TEXT = "give old_text: a part of the entry that only this entry has"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of one entry: `content` is the new text, `old_text` a part of the entry to change."""

    # A model may put `target` into an operation; ignored, the entry would land in the wrong file.
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    action: Action
    content: str | None = None
    old_text: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The change that one call of the tool asks for."""

    target: Target
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries after a change, and a description of each step."""

    entries: tuple[str, ...]
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InvalidChange:
    """Why a change cannot be made, and the entries that match if `old_text` is ambiguous."""

    problem: str
    matches: tuple[str, ...] = ()
    target: Target | None = None


def read_change(arguments: Mapping[str, object]) -> Change | InvalidChange:
    """Read the arguments of a call, which may be anything: one operation, or a list of them."""
    target = arguments.get("target") or "memory"
    if target not in TARGETS:
        return InvalidChange(f"target must be one of {', '.join(TARGETS)}")
    given = arguments.get("operations")
    if given is None or given == []:
        given = [arguments]
    elif arguments.get("action") is not None:
        return InvalidChange("give either action or operations, not both", target=target)
    if not isinstance(given, list | tuple):
        return InvalidChange("operations must be a list", target=target)
    listed = cast("Sequence[object]", given)
    if len(listed) > MAX_OPERATIONS:
        return InvalidChange(f"at most {MAX_OPERATIONS} operations fit one call", target=target)
    operations: list[Operation] = []
    for one in listed:
        operation = _read_operation(one)
        if isinstance(operation, InvalidChange):
            return InvalidChange(operation.problem, target=target)
        operations.append(operation)
    return Change(target, tuple(operations))


def change_to_json(change: Change) -> dict[str, object]:
    """Return the arguments that `read_change` reads back."""
    operations = [
        {"action": one.action, "content": one.content, "old_text": one.old_text} for one in change.operations
    ]
    return {"target": change.target, "operations": operations}


def plan(
    entries: Sequence[str], operations: Sequence[Operation], *, limit: int, scan: Scan
) -> Plan | InvalidChange:
    """Apply all operations to the entries; if one is invalid, none is applied."""
    now, done = tuple(entries), list[str]()
    many = len(operations) > 1
    longest = max(limit, count_characters(now))
    if any(len(one.content or "") > longest for one in operations):
        return InvalidChange(
            f"content is longer than the file may be, which is {limit} characters: shorten it"
        )
    for place, operation in enumerate(operations, 1):
        step = _apply_operation(now, operation, scan)
        if isinstance(step, InvalidChange):
            where = f"operation {place}: " if many else ""
            return InvalidChange(where + step.problem, step.matches)
        now, words = step
        done.append(words)
    size = count_characters(now)
    # A file that a person has filled beyond the limit can still be made shorter.
    if size > limit and size >= count_characters(entries):
        return InvalidChange(
            f"the file would have {size} characters of at most {limit}: shorten or remove entries first, "
            "or in the same call with operations, where only the end result must fit"
        )
    return Plan(now, tuple(done))


def preview(entry: str) -> str:
    """Return the beginning of an entry."""
    return entry[:_PREVIEW]


_Step: TypeAlias = tuple[tuple[str, ...], str]


def _apply_operation(entries: tuple[str, ...], operation: Operation, scan: Scan) -> _Step | InvalidChange:
    if operation.action == "add":
        return _add(entries, operation, scan)
    place = _find_entry(entries, operation.old_text)
    if isinstance(place, InvalidChange):
        return place
    if operation.action == "remove":
        return entries[:place] + entries[place + 1 :], "removed"
    content = _check_content(operation, scan)
    return content if isinstance(content, InvalidChange) else _replace(entries, place, content)


def _replace(entries: tuple[str, ...], place: int, content: str) -> _Step:
    rest = entries[:place] + entries[place + 1 :]
    if content == entries[place]:
        return entries, "already there"
    if content in rest:
        return rest, "replaced by an entry that was already there"
    return (*entries[:place], content, *entries[place + 1 :]), "replaced"


def _add(entries: tuple[str, ...], operation: Operation, scan: Scan) -> _Step | InvalidChange:
    content = _check_content(operation, scan)
    if isinstance(content, InvalidChange):
        return content
    return (entries, "already there") if content in entries else ((*entries, content), "added")


def _check_content(operation: Operation, scan: Scan) -> str | InvalidChange:
    """Return the new text without whitespace at its ends."""
    text = (operation.content or "").strip()
    if not text:
        instead = "; use remove to delete an entry" if operation.action == "replace" else ""
        return InvalidChange(f"content is empty: say what to remember{instead}")
    try:
        check_text(text, "content")
    except InvalidArgumentError as error:
        return InvalidChange(str(error))
    if problem := find_entry_problem(text):
        return InvalidChange(f"content {problem}: write it without, or as several entries")
    if problem := scan(text):
        return InvalidChange(f"content is refused: {problem}; write down the plain fact in other words")
    return text


def _find_entry(entries: Sequence[str], old_text: str | None) -> int | InvalidChange:
    """Return the index of the one entry that contains `old_text`, ignoring whitespace if none else does."""
    wanted = (old_text or "").strip()
    if not wanted:
        return InvalidChange(f"old_text is missing: {_NEEDS_OLD_TEXT}")
    if wanted in entries:
        return list(entries).index(wanted)
    found = [place for place, entry in enumerate(entries) if wanted in entry] or [
        place for place, entry in enumerate(entries) if _normalize(wanted) in _normalize(entry)
    ]
    if not found:
        return InvalidChange(f"no entry contains old_text: {_NEEDS_OLD_TEXT}")
    different = tuple(dict.fromkeys(entries[place] for place in found))
    if len(different) > 1:
        return InvalidChange(
            f"{len(different)} different entries contain old_text: {_NEEDS_OLD_TEXT}", different
        )
    return found[0]


def _normalize(text: str) -> str:
    """Remove the differences that quoting may cause: whitespace, and composed or decomposed accents."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _read_operation(value: object) -> Operation | InvalidChange:
    if isinstance(value, Operation):
        return value
    if not isinstance(value, Mapping):
        return InvalidChange("each operation must be an object with action, content and old_text")
    given = cast("Mapping[str, object]", value)
    action, content, old_text = (given.get(name) for name in ("action", "content", "old_text"))
    if action not in ACTIONS:
        return InvalidChange(f"action must be one of {', '.join(ACTIONS)}")
    for name, text in (("content", content), ("old_text", old_text)):
        if text is not None and not isinstance(text, str):
            return InvalidChange(f"{name} must be text")
    return Operation(action, cast("str | None", content), cast("str | None", old_text))


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry that was added (no `before`), removed (no `after`) or changed, at an index of the list.

    In a list of edits each `place` is the index after all earlier edits. Going from [a, b, c] to [b, d]
    is `Edit(0, a, None)`, which gives [b, c], and then `Edit(1, c, d)`.
    """

    place: int
    before: str | None
    after: str | None


def diff_entries(old: Sequence[str], new: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits that turn the old entries into the new ones."""
    # Skip the shared start and end: many equal entries would cost their number squared.
    first = _count_shared_start(old, new)
    last = _count_shared_start(old[first:][::-1], new[first:][::-1])
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
    """Return the entries after the edits, or None if the edits do not fit them."""
    now = list(entries)
    for edit in edits:
        end = edit.place + (edit.before is not None)
        if edit.place < 0 or end > len(now) or now[edit.place : end] != _as_list(edit.before):
            return None
        now[edit.place : end] = _as_list(edit.after)
    return tuple(now)


def revert_edits(entries: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...] | None:
    """Undo the edits, even if others were made since; None if their entries are no longer there."""
    exactly = apply_edits(entries, [Edit(one.place, one.after, one.before) for one in reversed(edits)])
    if exactly is not None:
        return exactly
    added = {edit.after for edit in edits if edit.before is None}
    # An entry that was only moved stays where it is now.
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
            # Somebody may have restored the old entry already.
            now[place : place + 1] = [] if edit.before in now else _as_list(edit.before)
        elif edit.before is not None and edit.before not in now:
            now.insert(edit.place, edit.before)
    return tuple(now)


def _count_shared_start(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many entries both begin with."""
    pairs = zip(old, new, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def _as_list(entry: str | None) -> list[str]:
    return [] if entry is None else [entry]
