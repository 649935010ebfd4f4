"""`recollect erase`: forgets a user for good."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.data.database import describe_purge
from recollect.cli.options import (
    Json,
    StoreUrl,
    System,
    Tenant,
    choose_tenant,
    require_database,
    resolve_database,
    run_in_store,
)
from recollect.cli.output import make_printable, write_json, write_lines
from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.records import EraseReport, Purge

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
UserOfAStore = Annotated[str | None, typer.Option("--user", help="The user's id.")]
Folder = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="An agent's configuration, or its folder: its user and files."),
]


def erase(  # noqa: PLR0917 - one for each option
    user: UserOfAStore = None,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    config: Folder = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete everything stored about a user, in all threads, and verify that nothing is left.

    On SQLite it then removes traces from the log and the file, and says how far that is done.
    """
    if config is not None:
        if user is not None or tenant is not None or system:
            raise InvalidArgumentError("config", "names the user; leave out --user, --tenant and --system")
        _erase_folder(config, yes=yes, json=json)
        return
    if user is None:
        raise InvalidArgumentError("user", "give either --user USER or --config FOLDER")
    scope = Scope(choose_tenant(tenant, system=system), user)
    found = require_database(store)
    owner = "the system's own data" if system else f"tenant {tenant!r}"
    _confirm(f"user {user!r} of {owner}", yes=yes)
    report = run_in_store(found, lambda opened: opened.erase(scope=scope))
    if json:
        counts = {"counts": dict(report.counts), "total": report.total, "epoch": report.epoch}
        write_json(counts | {"log": report.log, "file": report.file})
        return
    write_lines(*_format_rows(report, user))


def _erase_folder(config: Path, *, yes: bool, json: bool) -> None:
    from recollect.runtime.config.settings import load_config
    from recollect.runtime.erasure import erase_folder

    loaded = load_config(config)
    found = resolve_database(loaded.store)  # a configuration names it, so it is no mistyped file
    _confirm(f"the user of {loaded.path}", yes=yes)
    report = run_in_store(found, lambda opened: erase_folder(loaded, opened))
    if json:
        write_json(report.to_dict())
        return
    write_lines(*_format_rows(report.rows, loaded.scope.user_id))
    write_lines(*(make_printable(f"  removed {path}") for path in report.files))
    write_lines(*(make_printable(f"  not reached: {place}") for place in report.not_reached))


def _confirm(whom: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(f"Erase everything about {whom}? It cannot be undone", abort=True, err=True)


def _format_rows(report: EraseReport, user: str) -> list[str]:
    lines = [f"  {kind}: {count}" for kind, count in report.counts.items()]
    return [
        f"Erased {report.total} rows of user {user!r}; verified that no table has any left.",
        *lines,
        *describe_purge(Purge(report.log, report.file)),
    ]
