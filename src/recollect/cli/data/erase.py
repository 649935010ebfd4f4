"""`recollect erase`: forgets a user for good."""

from typing import Annotated

import typer

from recollect.cli.data.database import describe_purge
from recollect.cli.options import (
    Json,
    StoreUrl,
    System,
    Tenant,
    User,
    choose_tenant,
    require_database,
    run_in_store,
)
from recollect.cli.output import write_json, write_lines
from recollect.scope import Scope
from recollect.storage.records import Purge

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def erase(  # noqa: PLR0917 - one for each option
    user: User,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete everything stored about a user, in all threads, and verify that nothing is left.

    On SQLite it then removes traces from the log and the file, and says how far that is done.
    """
    scope = Scope(choose_tenant(tenant, system=system), user)
    found = require_database(store)
    if not yes:
        owner = "the system's own data" if system else f"tenant {tenant!r}"
        typer.confirm(
            f"Erase everything about user {user!r} of {owner}? It cannot be undone", abort=True, err=True
        )
    report = run_in_store(found, lambda opened: opened.erase(scope=scope))
    if json:
        counts = {"counts": dict(report.counts), "total": report.total, "epoch": report.epoch}
        write_json(counts | {"log": report.log, "file": report.file})
        return
    lines = (f"  {kind}: {count}" for kind, count in report.counts.items())
    write_lines(
        f"Erased {report.total} rows of user {user!r}; verified that no table has any left.",
        *lines,
        *describe_purge(Purge(report.log, report.file)),
    )
