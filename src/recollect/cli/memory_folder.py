"""Where the `memory` commands find curated memory, and how they show a change."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from recollect.backends.curated.backend import DEFAULT_FOLDER
from recollect.backends.curated.entries import Edit, Operation, Target
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import LoggedChange
from recollect.cli.options import DEFAULT_CONFIG
from recollect.cli.output import printable
from recollect.errors import MemoryNotFoundError
from recollect.runtime.config.file import FILE
from recollect.runtime.config.models import load_config

Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="The folder with MEMORY.md and USER.md, if not the configured one."),
]


def existing_folder(folder: Path | None, config: Path) -> CuratedFolder:
    """Return curated memory that is there: a mistyped name must not look like an empty memory."""
    found = CuratedFolder(folder) if folder is not None else _configured(config)
    if not found.path.is_dir():
        raise MemoryNotFoundError(
            f"there is no folder {found.path}; it is made with the first change. Name another with --folder"
        )
    return found


def _configured(config: Path) -> CuratedFolder:
    """Return the memory that a configuration names, within its limits; without one the usual folder."""
    if config == DEFAULT_CONFIG and not (config / FILE).exists():
        return CuratedFolder(Path(DEFAULT_FOLDER))
    runtime = load_config(config)
    curated = runtime.curated
    if runtime.gateway is not None and not curated.folder.is_dir():
        raise MemoryNotFoundError(
            f"the memory of {runtime.path} is behind a gateway, and has no files; name a folder with --folder"
        )
    limits: dict[Target, int] = {"memory": curated.memory_limit, "user": curated.user_limit}
    return CuratedFolder(curated.folder, limits=limits, log_limit=curated.log_limit)


def change_lines(change: LoggedChange) -> list[str]:
    """Return a change as lines for people, as a diff."""
    source = change.source
    state = "" if change.is_applied else " (was not made)"
    undoes = f" of {source.undoes}" if source.undoes else ""
    run = f", run {source.run_id} of session {source.session_id}" if source.run_id else ""
    lines = [f"{change.id}  {change.at[:19]}Z  {change.target}  {source.kind}{undoes}{run}{state}"]
    return [printable(line) for line in lines] + edit_lines(change.edits)


def edit_lines(edits: Iterable[Edit]) -> list[str]:
    """Return edits as lines for people, as a diff."""
    lines: list[str] = []
    for edit in edits:
        lines += _marked("-", edit.before) + _marked("+", edit.after)
    return [printable(line) for line in lines]


def operation_lines(operation: Operation) -> list[str]:
    """Return an operation as lines for people."""
    lines = [f"  {operation.action}"]
    if operation.action != "add":
        lines += _marked("?", operation.old_text)
    if operation.action != "remove":
        lines += _marked("+", operation.content)
    return [printable(line) for line in lines]


def _marked(sign: str, text: str | None) -> list[str]:
    return [] if text is None else [f"  {sign} {line}" for line in text.splitlines()]
