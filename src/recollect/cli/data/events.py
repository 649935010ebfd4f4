"""`recollect events`: what was done for the runs of a user."""

import json as json_format
from typing import Annotated

import typer

from recollect.cli.options import (
    DEFAULT_CONFIG,
    App,
    Config,
    Json,
    Project,
    StoreUrl,
    System,
    Tenant,
    choose_tenant,
    require_database,
    run_in_store,
)
from recollect.cli.output import make_console, make_printable, write_json
from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.records import AuditEvent

OfUser = Annotated[str | None, typer.Option("--user", help="The user's id.")]
OfSession = Annotated[str | None, typer.Option("--session", help="Show the events of one session.")]
OfRun = Annotated[str | None, typer.Option("--run", help="Show the events of one run.")]
OfName = Annotated[str | None, typer.Option("--name", help="Show the events of one name.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="How many of the newest events to show.")]

_OF_A_USER = ("store", "tenant", "system", "app", "project")


def events(  # noqa: PLR0913, PLR0917 - one for each option
    context: typer.Context,
    user: OfUser = None,
    store: StoreUrl = None,
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

    Without --user they are those of the runtime that the configuration describes, in its own store.
    """
    _check_together(context, user)
    if user is None:
        from recollect.runtime.config.settings import load_config

        runtime = load_config(config)
        place, scope = runtime.store, runtime.scope.with_thread(session)
    else:
        place, scope = store, Scope(choose_tenant(tenant, system=system), user, session, app, project)
    found = run_in_store(
        require_database(place),
        lambda opened: opened.list_events(limit=limit, name=name, run_id=run, scope=scope),
    )
    if json:
        write_json([event.to_dict() for event in found])
    else:
        _show(found)


def _check_together(context: typer.Context, user: str | None) -> None:
    """Reject options that would be ignored: those of a user's store, or that of a runtime."""
    names = _OF_A_USER if user is None else ("config",)
    unused = [name for name in names if _is_typed(context, name)]
    if unused and user is None:
        raise InvalidArgumentError(
            "user",
            f"give --user with --{unused[0]}; without it the events are the runtime's, in its own store",
        )
    if unused:
        raise InvalidArgumentError(
            "config",
            "give it without --user, for the runtime's events, or --store with --user for those in it",
        )


def _is_typed(context: typer.Context, name: str) -> bool:
    # The environment may name a database for the other commands; only what was typed was meant for this one.
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _show(found: list[AuditEvent]) -> None:
    from rich.text import Text

    lines = Text()
    for event in found:
        lines.append(f"{event.created_at:%Y-%m-%d %H:%M:%S} {make_printable(event.thread_id)} ", style="dim")
        lines.append(f"{make_printable(event.name)} ", style="bold")
        lines.append(make_printable(json_format.dumps(event.payload, ensure_ascii=False)))
        lines.append(f" run {make_printable(event.run_id)}\n" if event.run_id else "\n", style="dim")
    make_console().print(lines if found else "No events.", end="" if found else "\n")
