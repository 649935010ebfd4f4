"""`recollect memory show`: what curated memory holds."""

from dataclasses import dataclass

from recollect.backends.curated.entries import FILE_NAMES, TARGETS, Target, usage
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.snapshot import find_threat
from recollect.cli.memory_folder import Folder, existing_folder
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import printable, write_json, write_lines
from recollect.errors import StorageError


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is shown."""

    name: str
    usage: str
    entries: list[tuple[str, str | None]]
    problem: str | None


def show(folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False) -> None:
    """Show both files entry by entry, what is blocked or damaged in them, and how many changes wait."""
    found = existing_folder(folder, config)
    files = {target: _file(found, target) for target in TARGETS}
    waiting, problem = _waiting(found)
    if json:
        shown = {target: _as_json(file) for target, file in files.items()}
        write_json({"folder": str(found.path), "files": shown, "waiting": waiting, "problem": problem})
        return
    for file in files.values():
        write_lines(*_lines(file))
    if problem:
        write_lines(printable(f"! {problem}"))
    if waiting:
        write_lines(f"{waiting} waiting for approval: recollect memory approve")


def _waiting(found: CuratedFolder) -> tuple[int | None, str | None]:
    """Return how many changes wait, or why nobody can say; the files are shown all the same."""
    try:
        return len(found.pending()), None
    except StorageError as error:
        return None, str(error)


def _file(found: CuratedFolder, target: Target) -> _File:
    name = FILE_NAMES[target]
    try:
        parsed = found.read(target)
    except StorageError as error:
        return _File(name, "", [], str(error))
    entries = [(entry, find_threat(entry)) for entry in parsed.entries]
    return _File(name, usage(parsed.entries, found.limits[target]), entries, parsed.problem)


def _as_json(file: _File) -> dict[str, object]:
    entries = [{"text": text, "blocked": blocked} for text, blocked in file.entries]
    return {"usage": file.usage, "entries": entries, "problem": file.problem}


def _lines(file: _File) -> list[str]:
    lines = [f"{file.name}  {file.usage}".rstrip()]
    if file.problem:
        lines.append(f"  ! {file.problem}")
    for text, blocked in file.entries:
        lines.append("  - " + "\n    ".join(text.splitlines()))
        if blocked:
            lines.append(f"    ! not shown to the model: {blocked}")
    return [printable(line) for line in lines]
