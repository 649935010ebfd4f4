"""`recollect db …`: care of the database as a whole."""

import asyncio

from recollect.cli.options import Json, StoreUrl, require_database, run_in_store
from recollect.cli.output import write_json, write_lines
from recollect.errors import StorageBusyError, StorageError
from recollect.storage.opening import convert_store
from recollect.storage.records import Purge, PurgeState
from recollect.storage.store import Store

_STATES: dict[PurgeState, str] = {
    "done": "removed",
    "pending": "pending; `recollect db vacuum` removes them, and the next start tries again",
    "failed": "not removed, see the log; `recollect db vacuum` and the next start try again",
    "not_applicable": "none",
}


def migrate(store: StoreUrl = None, json: Json = False) -> None:
    """Bring a database to the layout of this version; one from before the first release is converted.

    Make a backup first, and stop the programs that use it. Other updates happen by themselves whenever a
    database is opened.
    """
    url = require_database(store)
    converted = asyncio.run(convert_store(url))
    engine = run_in_store(url, _get_engine)  # opening it applies what is pending
    if json:
        write_json({"converted": converted})
        return
    write_lines("Converted to the present layout." if converted else "Has the present layout.")
    if converted and engine == "postgresql":
        write_lines("The tables are new: repeat the grants to other roles (docs/storage.md).")


def vacuum(store: StoreUrl = None, json: Json = False) -> None:
    """Remove the traces of deleted data from a SQLite file and its log, however large the file is.

    Other programs can read meanwhile, but not write: about a second for 100 MB.
    """
    purge = run_in_store(require_database(store), lambda opened: opened.purge())
    if json:
        write_json(purge._asdict())
    else:
        write_lines(*describe_purge(purge))
    if "failed" in purge:
        raise StorageError(
            "the vacuum failed, so traces of deleted data are left; is there space on the disk?"
        )
    if "pending" in purge:
        raise StorageBusyError(
            "other programs kept the file busy, so traces of deleted data are left; try again"
        )


def describe_purge(purge: Purge) -> list[str]:
    """Return lines that say how far the traces of deleted data are removed."""
    if purge.file == "not_applicable":
        return ["Traces: nothing to do here; a PostgreSQL server vacuums its own files."]
    return [
        f"Traces in the log: {_STATES[purge.log]}",
        f"Traces in unused parts of the file: {_STATES[purge.file]}",
    ]


async def _get_engine(store: Store) -> str:
    return store.engine_name
