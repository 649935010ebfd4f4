"""`recollect events`: what was done for the runs of a user."""

import asyncio
import json as json_format
from typing import Annotated

import typer

from recollect.cli.options import (
    DEFAULT_CONFIG,
    App,
    Config,
    Json,
    Project,
    System,
    Tenant,
    Url,
    chosen_tenant,
    existing_database,
)
from recollect.cli.output import console, printable, write_json
from recollect.errors import InvalidArgumentError
from recollect.runtime.config import load_config
from recollect.scope import Scope
from recollect.storage.open import open_store
from recollect.storage.records import AuditEvent

OfUser = Annotated[str | None, typer.Option("--user", help="The user's id.")]
OfSession = Annotated[str | None, typer.Option("--session", help="Show the events of one session.")]
OfRun = Annotated[str | None, typer.Option("--run", help="Show the events of one run.")]
OfName = Annotated[str | None, typer.Option("--name", help="Show the events of one name.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Show so many of the newest events.")]


def events(  # noqa: PLR0913, PLR0917 - one for each option
    user: OfUser = None,
    url: Url = None,
    tenant: Tenant = None,
    system: System = False,
    session: OfSession = None,
    run: OfRun = None,
    name: OfName = None,
    app: App = "default",
    project: Project = "default",
    limit: Limit = 50,
    config: Config = DEFAULT_CONFIG,
    json: Json = False,
) -> None:
    """Show the newest audit events of a user, oldest first: of all sessions, or of one.

    Without --user they are those of the runtime that the configuration describes.
    """
    if user is None:
        if tenant is not None or system:
            raise InvalidArgumentError(
                "user", "give --user with --tenant or --system; without them it is the runtime's"
            )
        runtime = load_config(config)
        address, scope = runtime.store, Scope(None, runtime.user_id, session)
    else:
        address, scope = url, Scope(chosen_tenant(tenant, system=system), user, session, app, project)
    found = asyncio.run(_listed(existing_database(address), scope, name, run, limit))
    if json:
        write_json([_as_json(event) for event in found])
    else:
        _show(found)


async def _listed(url: str, scope: Scope, name: str | None, run: str | None, limit: int) -> list[AuditEvent]:
    async with open_store(url) as store:
        return await store.list_events(limit=limit, name=name, run_id=run, scope=scope)


def _show(found: list[AuditEvent]) -> None:
    from rich.text import Text

    lines = Text()
    for event in found:
        lines.append(f"{event.created_at:%Y-%m-%d %H:%M:%S} {printable(event.thread_id)} ", style="dim")
        lines.append(f"{printable(event.name)} ", style="bold")
        lines.append(printable(json_format.dumps(event.payload, ensure_ascii=False)))
        lines.append(f" run {printable(event.run_id)}\n" if event.run_id else "\n", style="dim")
    console().print(lines if found else "No events.", end="" if found else "\n")


def _as_json(event: AuditEvent) -> dict[str, object]:
    return {
        "number": event.number,
        "session_id": event.thread_id,
        "name": event.name,
        "run_id": event.run_id,
        "payload": dict(event.payload),
        "context_visible": event.context_visible,
        "created_at": event.created_at.isoformat(),
    }
