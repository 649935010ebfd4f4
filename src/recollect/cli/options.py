"""Options that several commands share, and what they stand for."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.errors import InvalidArgumentError, StorageUnavailableError
from recollect.runtime.config.file import FOLDER
from recollect.scope import Scope
from recollect.storage.opening import DATABASE_VARIABLE, database_url, sqlite_path

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar=DATABASE_VARIABLE,
        help="The database: a SQLite file, or postgresql://user@host/name.",
    ),
]
User = Annotated[str, typer.Option("--user", help="The user's id.")]
Tenant = Annotated[int | None, typer.Option("--tenant", help="The tenant that the user belongs to.")]
System = Annotated[bool, typer.Option("--system", help="The user belongs to no tenant.")]
App = Annotated[str, typer.Option("--app", help="The app that the threads belong to.")]
Project = Annotated[str, typer.Option("--project", help="The project that the threads belong to.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="The configuration file, or its folder.")]
DEFAULT_CONFIG = Path(FOLDER)
"""Where the configuration is looked for if nothing else is said."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")]


def choose_tenant(tenant: int | None, *, system: bool) -> int | None:
    """Return the tenant; exactly one of the two options must be given, so that none is meant by accident."""
    if system == (tenant is not None):
        raise InvalidArgumentError("tenant", "give either --tenant NUMBER or --system")
    return tenant


def choose_scope(user: str, tenant: int | None, *, system: bool) -> Scope:
    """Return the user's scope."""
    return Scope(choose_tenant(tenant, system=system), user)


def require_database(store: str | None) -> str:
    """Return the URL of a database that is there: a mistyped file name must not create an empty file."""
    found = resolve_database(store)
    if _is_sqlite(found) and not Path(path := sqlite_path(found)).exists():
        raise StorageUnavailableError(f"{path}: there is no such file")
    return found


def resolve_database(store: str | None) -> str:
    """Return the URL of a database that outlives the command."""
    if not store:
        raise InvalidArgumentError("store", f"name the database with --store or in {DATABASE_VARIABLE}")
    url = database_url(store)
    if _is_sqlite(url) and sqlite_path(url) == ":memory:":
        raise InvalidArgumentError("store", "a database in memory ends with this command; name a file")
    return url


def _is_sqlite(url: str) -> bool:
    return url.partition(":")[0].lower() == "sqlite"
