"""`recollect memory`: show, log, undo, approve and reject the changes of curated memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from recollect.backends.curated.backend import DEFAULT_FOLDER
from recollect.backends.curated.entries import (
    FILE_NAMES,
    TARGETS,
    Edit,
    InvalidChange,
    Operation,
    Target,
    describe_usage,
)
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import LoggedChange, logged_change_to_json
from recollect.backends.curated.queue import PendingChange, pending_change_to_json
from recollect.backends.curated.review import approve as approve_change
from recollect.backends.curated.review import preview_pending
from recollect.backends.curated.review import reject as reject_change
from recollect.backends.curated.review import undo as undo_change
from recollect.backends.curated.snapshot import find_threat
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import make_printable, write_json, write_lines
from recollect.errors import MemoryNotFoundError, StorageError
from recollect.runtime.config.file import FILE

Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="The folder with MEMORY.md and USER.md, if not the configured one."),
]


def require_folder(folder: Path | None, config: Path) -> CuratedFolder:
    """Return curated memory that is there: a mistyped name must not look like an empty memory."""
    found = CuratedFolder(folder) if folder is not None else _open_configured(config)
    if not found.path.is_dir():
        raise MemoryNotFoundError(
            f"there is no folder {found.path}; it is made with the first change. Name another with --folder"
        )
    return found


def _open_configured(config: Path) -> CuratedFolder:
    """Return the memory that a configuration names, within its limits; without one the usual folder."""
    if config == DEFAULT_CONFIG and not (config / FILE).exists():
        return CuratedFolder(Path(DEFAULT_FOLDER))
    from recollect.runtime.config.settings import load_config

    runtime = load_config(config)
    curated = runtime.curated
    if runtime.gateway is not None and not curated.folder.is_dir():
        raise MemoryNotFoundError(
            f"the memory of {runtime.path} is on a gateway, which has no files; name a folder with --folder"
        )
    limits: dict[Target, int] = {"memory": curated.memory_limit, "user": curated.user_limit}
    return CuratedFolder(curated.folder, limits=limits, log_limit=curated.log_limit)


def format_change(change: LoggedChange) -> list[str]:
    """Return a change as lines for people, as a diff."""
    source = change.source
    state = "" if change.is_applied else " (was not made)"
    undoes = f" of {source.undoes}" if source.undoes else ""
    run = f", run {source.run_id} of session {source.session_id}" if source.run_id else ""
    lines = [f"{change.id}  {change.at[:19]}Z  {change.target}  {source.kind}{undoes}{run}{state}"]
    return [make_printable(line) for line in lines] + format_edits(change.edits)


def format_edits(edits: Iterable[Edit]) -> list[str]:
    """Return edits as lines for people, as a diff."""
    lines: list[str] = []
    for edit in edits:
        lines += _prefix_lines("-", edit.before) + _prefix_lines("+", edit.after)
    return [make_printable(line) for line in lines]


def format_operation(operation: Operation) -> list[str]:
    """Return an operation as lines for people."""
    lines = [f"  {operation.action}"]
    if operation.action != "add":
        lines += _prefix_lines("?", operation.old_text)
    if operation.action != "remove":
        lines += _prefix_lines("+", operation.content)
    return [make_printable(line) for line in lines]


def _prefix_lines(prefix: str, text: str | None) -> list[str]:
    return [] if text is None else [f"  {prefix} {line}" for line in text.splitlines()]


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is shown."""

    name: str
    usage: str
    entries: list[tuple[str, str | None]]
    problem: str | None


def show(folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False) -> None:
    """Show both files entry by entry, what is blocked or damaged in them, and how many changes wait."""
    found = require_folder(folder, config)
    files = {target: _read_file(found, target) for target in TARGETS}
    waiting, problem = _count_pending(found)
    if json:
        shown = {target: _file_to_json(file) for target, file in files.items()}
        write_json({"folder": str(found.path), "files": shown, "waiting": waiting, "problem": problem})
        return
    for file in files.values():
        write_lines(*_format_file(file))
    if problem:
        write_lines(make_printable(f"! {problem}"))
    if waiting:
        write_lines(f"{waiting} waiting for approval: recollect memory approve")


def _count_pending(found: CuratedFolder) -> tuple[int | None, str | None]:
    """Return how many changes wait, or why nobody can say; the files are shown all the same."""
    try:
        return len(found.pending()), None
    except StorageError as error:
        return None, str(error)


def _read_file(found: CuratedFolder, target: Target) -> _File:
    name = FILE_NAMES[target]
    try:
        parsed = found.read(target)
    except StorageError as error:
        return _File(name, "", [], str(error))
    entries = [(entry, find_threat(entry)) for entry in parsed.entries]
    return _File(name, describe_usage(parsed.entries, found.limits[target]), entries, parsed.problem)


def _file_to_json(file: _File) -> dict[str, object]:
    entries = [{"text": text, "blocked": blocked} for text, blocked in file.entries]
    return {"usage": file.usage, "entries": entries, "problem": file.problem}


def _format_file(file: _File) -> list[str]:
    lines = [f"{file.name}  {file.usage}".rstrip()]
    if file.problem:
        lines.append(f"  ! {file.problem}")
    for text, blocked in file.entries:
        lines.append("  - " + "\n    ".join(text.splitlines()))
        if blocked:
            lines.append(f"    ! not shown to the model: {blocked}")
    return [make_printable(line) for line in lines]


Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many of the newest changes to show.")]


def log(
    folder: Folder = None, config: Config = DEFAULT_CONFIG, limit: Limit = 20, json: Json = False
) -> None:
    """Show the newest changes as diffs, oldest first."""
    changes = require_folder(folder, config).history().changes[-limit:]
    if json:
        write_json([logged_change_to_json(change) for change in changes])
        return
    for change in changes:
        write_lines(*format_change(change))
    if not changes:
        write_lines("No changes.")


ChangeId = Annotated[
    str | None, typer.Argument(help="The change's id, from the log; the model's last one if left out.")
]


def undo(
    change_id: ChangeId = None, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Undo the model's last change, or the one named; an undo can itself be undone by its id."""
    change = undo_change(require_folder(folder, config), change_id)
    if json:
        write_json(logged_change_to_json(change))
    else:
        write_lines(*format_change(change))


PendingIds = Annotated[list[str] | None, typer.Argument(help="The ids of the changes; none lists all.")]


def approve(
    pending_ids: PendingIds = None, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Approve pending changes, in the order given; without an id, list them."""
    found = require_folder(folder, config)
    if not pending_ids:
        _show_pending(found, json=json)
        return
    made: list[LoggedChange | None] = []
    try:
        made += (approve_change(found, pending_id) for pending_id in pending_ids)
    finally:
        # One that no longer fits ends it; those before it are made all the same.
        _show_changes(made, json=json)


def _show_changes(made: list[LoggedChange | None], *, json: bool) -> None:
    if json:
        write_json([None if change is None else logged_change_to_json(change) for change in made])
        return
    for change in made:
        write_lines(*(["It was already like that."] if change is None else format_change(change)))


def _show_pending(found: CuratedFolder, *, json: bool) -> None:
    if json:
        write_json([pending_change_to_json(one) for one in found.pending()])
        return
    waiting = preview_pending(found)
    for one, effect in waiting:
        run = f"run {one.run_id} of session {one.session_id}"
        write_lines(make_printable(f"{one.id}  {one.at[:19]}Z  {one.change.target}  {run}"))
        if isinstance(effect, InvalidChange):
            _show_invalid(one, effect)
        else:
            # A part of an entry names it; a person must see all of what would go.
            write_lines(*(format_edits(effect) or ["  (it is already like that)"]))
    if not waiting:
        write_lines("Nothing waits for approval.")


def _show_invalid(one: PendingChange, refusal: InvalidChange) -> None:
    for operation in one.change.operations:
        write_lines(*format_operation(operation))
    write_lines(make_printable(f"  ! does not fit the file as it is: {refusal.problem}"))


RejectedIds = Annotated[list[str], typer.Argument(help="The ids of the changes, as `approve` lists them.")]


def reject(
    pending_ids: RejectedIds, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Reject pending changes; the log records the rejection, but not the text."""
    found = require_folder(folder, config)
    rejected: list[PendingChange] = []
    try:
        rejected += (reject_change(found, pending_id) for pending_id in pending_ids)
    finally:
        if json:
            write_json([pending_change_to_json(one) for one in rejected])
        else:
            write_lines(*(f"{one.id} was rejected." for one in rejected))
