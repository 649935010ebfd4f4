"""What a change makes of a list of entries: plain functions, without files.

A change is a list of operations and happens whole or not at all. A refusal says what to do about it, because
it is a model that reads it.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast, get_args

from recollect.backends.curated.text import TARGETS, Target, entry_problem, length
from recollect.errors import InvalidArgumentError
from recollect.validation import check_text

Action: TypeAlias = Literal["add", "replace", "remove"]
"""What an operation does with an entry."""

ACTIONS: tuple[Action, ...] = get_args(Action)
"""All actions."""

Scan: TypeAlias = Callable[[str], str | None]
"""Says what is wrong with a text that is to be written, or None."""

MOST_OPERATIONS = 100
"""How many operations one change may have."""

_PREVIEW = 80
_NEEDS_OLD_TEXT = "give old_text: a part of the entry that only this entry has"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of one entry: `content` is the new text, `old_text` a part of the entry that is meant."""

    # A `target` of its own would otherwise be passed over, and the entry land in the other file.
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    action: Action
    content: str | None = None
    old_text: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What one call of the tool asks for."""

    target: Target
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the entries become, and what was done in words."""

    entries: tuple[str, ...]
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing can be done, and the entries that were meant, if several were."""

    problem: str
    matches: tuple[str, ...] = ()
    target: Target | None = None


def read_change(arguments: Mapping[str, object]) -> Change | Refusal:
    """Read the arguments of a call, whoever wrote them: one operation, or a list of them."""
    target = arguments.get("target") or "memory"
    if target not in TARGETS:
        return Refusal(f"target must be one of {', '.join(TARGETS)}")
    given = arguments.get("operations")
    if given is None or given == []:
        given = [arguments]
    elif arguments.get("action") is not None:
        return Refusal("give either action or operations, not both", target=target)
    if not isinstance(given, list | tuple):
        return Refusal("operations must be a list", target=target)
    listed = cast("Sequence[object]", given)
    if len(listed) > MOST_OPERATIONS:
        return Refusal(f"at most {MOST_OPERATIONS} operations fit one call", target=target)
    operations: list[Operation] = []
    for one in listed:
        operation = _operation(one)
        if isinstance(operation, Refusal):
            return Refusal(operation.problem, target=target)
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
) -> Plan | Refusal:
    """Return what the operations make of the entries, all of them or none."""
    now, done = tuple(entries), list[str]()
    many = len(operations) > 1
    longest = max(limit, length(now))
    if any(len(one.content or "") > longest for one in operations):
        return Refusal(f"content is longer than the file may be, which is {limit} characters: shorten it")
    for place, operation in enumerate(operations, 1):
        step = _step(now, operation, scan)
        if isinstance(step, Refusal):
            where = f"operation {place}: " if many else ""
            return Refusal(where + step.problem, step.matches)
        now, words = step
        done.append(words)
    size = length(now)
    # A file that a person has filled beyond the limit can still be made shorter.
    if size > limit and size >= length(entries):
        return Refusal(
            f"the file would have {size} characters of at most {limit}: shorten or remove entries first, "
            "or together with this in one call with operations, of which only the end result counts"
        )
    return Plan(now, tuple(done))


def preview(entry: str) -> str:
    """Return the beginning of an entry."""
    return entry[:_PREVIEW]


_Step: TypeAlias = tuple[tuple[str, ...], str]


def _step(entries: tuple[str, ...], operation: Operation, scan: Scan) -> _Step | Refusal:
    if operation.action == "add":
        return _added(entries, operation, scan)
    place = _place(entries, operation.old_text)
    if isinstance(place, Refusal):
        return place
    if operation.action == "remove":
        return entries[:place] + entries[place + 1 :], "removed"
    content = _content(operation, scan)
    return content if isinstance(content, Refusal) else _replaced(entries, place, content)


def _replaced(entries: tuple[str, ...], place: int, content: str) -> _Step:
    rest = entries[:place] + entries[place + 1 :]
    if content == entries[place]:
        return entries, "already there"
    if content in rest:
        return rest, "replaced by an entry that was already there"
    return (*entries[:place], content, *entries[place + 1 :]), "replaced"


def _added(entries: tuple[str, ...], operation: Operation, scan: Scan) -> _Step | Refusal:
    content = _content(operation, scan)
    if isinstance(content, Refusal):
        return content
    return (entries, "already there") if content in entries else ((*entries, content), "added")


def _content(operation: Operation, scan: Scan) -> str | Refusal:
    """Return the new text as it is kept: without whitespace at its ends."""
    text = (operation.content or "").strip()
    if not text:
        instead = "; use remove to delete an entry" if operation.action == "replace" else ""
        return Refusal(f"content is empty: say what to remember{instead}")
    try:
        check_text(text, "content")
    except InvalidArgumentError as error:
        return Refusal(str(error))
    if problem := entry_problem(text):
        return Refusal(f"content {problem}: write it without, or as several entries")
    if problem := scan(text):
        return Refusal(f"content is refused: {problem}; write down the plain fact in other words")
    return text


def _place(entries: Sequence[str], old_text: str | None) -> int | Refusal:
    """Find the one entry that is meant: the whole of it, a part, or a part but for its whitespace."""
    wanted = (old_text or "").strip()
    if not wanted:
        return Refusal(f"old_text is missing: {_NEEDS_OLD_TEXT}")
    if wanted in entries:
        return list(entries).index(wanted)
    found = [place for place, entry in enumerate(entries) if wanted in entry] or [
        place for place, entry in enumerate(entries) if _plain(wanted) in _plain(entry)
    ]
    if not found:
        return Refusal(f"no entry contains old_text: {_NEEDS_OLD_TEXT}")
    different = tuple(dict.fromkeys(entries[place] for place in found))
    if len(different) > 1:
        return Refusal(f"{len(different)} different entries contain old_text: {_NEEDS_OLD_TEXT}", different)
    return found[0]


def _plain(text: str) -> str:
    """Return a text without what quoting it may change: its whitespace, and how its accents are written."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _operation(value: object) -> Operation | Refusal:
    if isinstance(value, Operation):
        return value
    if not isinstance(value, Mapping):
        return Refusal("each operation must be an object with action, content and old_text")
    given = cast("Mapping[str, object]", value)
    action, content, old_text = (given.get(name) for name in ("action", "content", "old_text"))
    if action not in ACTIONS:
        return Refusal(f"action must be one of {', '.join(ACTIONS)}")
    for name, text in (("content", content), ("old_text", old_text)):
        if text is not None and not isinstance(text, str):
            return Refusal(f"{name} must be text")
    return Operation(action, cast("str | None", content), cast("str | None", old_text))
