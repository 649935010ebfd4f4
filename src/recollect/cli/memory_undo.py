"""`recollect memory undo`: takes a change of curated memory back."""

from typing import Annotated

import typer

from recollect.backends.curated.journal import change_as_json
from recollect.backends.curated.review import undo as undo_change
from recollect.cli.memory_folder import Folder, change_lines, existing_folder
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import write_json, write_lines

ChangeId = Annotated[
    str | None, typer.Argument(help="The change's id, from the log; the model's last one if left out.")
]


def undo(
    change_id: ChangeId = None, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Undo the model's last change, or the one named; an undo can itself be undone by its id."""
    change = undo_change(existing_folder(folder, config), change_id)
    if json:
        write_json(change_as_json(change))
    else:
        write_lines(*change_lines(change))
