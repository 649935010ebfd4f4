"""`recollect memory approve`: accepts changes that wait, or lists them."""

from typing import Annotated

import typer

from recollect.backends.curated.entries import Refusal
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import LoggedChange, change_as_json
from recollect.backends.curated.review import PendingChange, foreseen, pending_as_json
from recollect.backends.curated.review import approve as approve_change
from recollect.cli.memory_folder import (
    Folder,
    change_lines,
    edit_lines,
    existing_folder,
    operation_lines,
)
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import printable, write_json, write_lines

PendingIds = Annotated[list[str] | None, typer.Argument(help="The ids of the changes; none lists all.")]


def approve(
    pending_ids: PendingIds = None, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Make changes that waited for approval, in the order given; without an id, list those that wait."""
    found = existing_folder(folder, config)
    if not pending_ids:
        _list(found, json=json)
        return
    made: list[LoggedChange | None] = []
    try:
        made += (approve_change(found, pending_id) for pending_id in pending_ids)
    finally:
        # One that no longer fits ends it; those before it are made all the same.
        _tell(made, json=json)


def _tell(made: list[LoggedChange | None], *, json: bool) -> None:
    if json:
        write_json([None if change is None else change_as_json(change) for change in made])
        return
    for change in made:
        write_lines(*(["It was already like that."] if change is None else change_lines(change)))


def _list(found: CuratedFolder, *, json: bool) -> None:
    if json:
        write_json([pending_as_json(one) for one in found.pending()])
        return
    waiting = foreseen(found)
    for one, effect in waiting:
        run = f"run {one.run_id} of session {one.session_id}"
        write_lines(printable(f"{one.id}  {one.at[:19]}Z  {one.change.target}  {run}"))
        if isinstance(effect, Refusal):
            _tell_refused(one, effect)
        else:
            # A part of an entry names it; a person must see all of what would go.
            write_lines(*(edit_lines(effect) or ["  (it is already like that)"]))
    if not waiting:
        write_lines("Nothing waits for approval.")


def _tell_refused(one: PendingChange, refusal: Refusal) -> None:
    for operation in one.change.operations:
        write_lines(*operation_lines(operation))
    write_lines(printable(f"  ! does not fit the file as it is: {refusal.problem}"))
