"""`recollect export`: everything that is kept about a user, as JSON lines."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.options import System, Tenant, Url, User, chosen_scope, existing_database
from recollect.cli.output import say, write_lines
from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.opening import open_store

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]

_FRAME_LINES = 2  # the first line and the last say what the file is


def export(
    user: User, url: Url = None, tenant: Tenant = None, system: System = False, output: Output = None
) -> None:
    """Write everything that is kept about a user as JSON lines, which `recollect import` reads back."""
    scope = chosen_scope(user, tenant, system=system)
    lines = asyncio.run(_exported(existing_database(url), scope))
    if output is None:
        write_lines(*lines)
    else:
        _write_file(output, lines)
    say(f"Exported {len(lines) - _FRAME_LINES} entries of user {user!r}.")


async def _exported(url: str, scope: Scope) -> list[str]:
    async with open_store(url) as store:
        return [line async for line in store.export(scope=scope)]


def _write_file(path: Path, lines: list[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidArgumentError("output", f"{path} cannot be written ({error.strerror})") from error
