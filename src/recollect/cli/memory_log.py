"""`recollect memory log`: what was changed in curated memory, when, and by which run."""

from typing import Annotated

import typer

from recollect.backends.curated.journal import change_as_json
from recollect.cli.memory_folder import Folder, change_lines, existing_folder
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import write_json, write_lines

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show so many of the newest changes.")]


def log(
    folder: Folder = None, config: Config = DEFAULT_CONFIG, limit: Limit = 20, json: Json = False
) -> None:
    """Show the newest changes as diffs, oldest first."""
    changes = existing_folder(folder, config).history().changes[-limit:]
    if json:
        write_json([change_as_json(change) for change in changes])
        return
    for change in changes:
        write_lines(*change_lines(change))
    if not changes:
        write_lines("No changes.")
