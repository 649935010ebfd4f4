"""Options that several commands share, and the tenant and the store that they name."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from recollect.errors import InvalidArgumentError, StorageUnavailableError
from recollect.runtime.config.file import FOLDER
from recollect.storage.opening import DATABASE_VARIABLE, database_url, open_store, sqlite_path
from recollect.storage.store import Store
from recollect.validation import SYSTEM_TENANT

T = TypeVar("T")

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar=DATABASE_VARIABLE,
        help="The database: a SQLite file, or postgresql://user@host/name.",
    ),
]
User = Annotated[str, typer.Option("--user", help="The user's id.")]
Tenant = Annotated[
    str | None, typer.Option("--tenant", help="The tenant that the user belongs to: a number or a name.")
]
System = Annotated[bool, typer.Option("--system", help="The user belongs to no tenant.")]
App = Annotated[str, typer.Option("--app", help="The app that the threads belong to.")]
Project = Annotated[str, typer.Option("--project", help="The project that the threads belong to.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="The configuration file, or its folder.")]
DEFAULT_CONFIG = Path(FOLDER)
"""Where the configuration is looked for if nothing else is said."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")]


def choose_tenant(tenant: str | None, *, system: bool) -> str | None:
    """Return the tenant; exactly one of the two options must be given, so that none is meant by accident."""
    if system == (tenant is not None):
        raise InvalidArgumentError("tenant", "give either --tenant TENANT or --system")
    if tenant == SYSTEM_TENANT:
        raise InvalidArgumentError("tenant", f"{tenant!r} is reserved for the tenant None; use --system")
    return tenant


def run_in_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open the store, await what `work` returns, and close the store."""

    async def run() -> T:
        async with open_store(url) as store:
            return await work(store)

    return asyncio.run(run())


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
