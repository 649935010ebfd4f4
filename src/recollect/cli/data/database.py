"""`recollect db …`: care of the database as a whole."""

import asyncio

from recollect.cli.options import Json, StoreUrl, require_database, run_in_store
from recollect.cli.output import write_json, write_lines
from recollect.storage.opening import convert_store
from recollect.storage.store import Store


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


async def _get_engine(store: Store) -> str:
    return store.engine_name
