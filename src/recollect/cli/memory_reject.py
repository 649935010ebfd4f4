"""`recollect memory reject`: drops changes that wait."""

from typing import Annotated

import typer

from recollect.backends.curated.review import PendingChange, pending_as_json
from recollect.backends.curated.review import reject as reject_change
from recollect.cli.memory_folder import Folder, existing_folder
from recollect.cli.options import DEFAULT_CONFIG, Config, Json
from recollect.cli.output import write_json, write_lines

RejectedIds = Annotated[list[str], typer.Argument(help="The ids of the changes, as `approve` lists them.")]


def reject(
    pending_ids: RejectedIds, folder: Folder = None, config: Config = DEFAULT_CONFIG, json: Json = False
) -> None:
    """Drop changes that waited for approval; the log keeps that they were rejected, not their text."""
    found = existing_folder(folder, config)
    rejected: list[PendingChange] = []
    try:
        rejected += (reject_change(found, pending_id) for pending_id in pending_ids)
    finally:
        if json:
            write_json([pending_as_json(one) for one in rejected])
        else:
            write_lines(*(f"{one.id} was rejected." for one in rejected))
