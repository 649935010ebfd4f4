"""`recollect threads`: the conversations of a user."""

from typing import Annotated

import typer

from recollect.cli.options import (
    App,
    Json,
    Project,
    StoreUrl,
    System,
    Tenant,
    User,
    choose_tenant,
    require_database,
    run_in_store,
)
from recollect.cli.output import make_console, make_printable, write_json
from recollect.scope import Scope
from recollect.storage.records import Thread

Limit = Annotated[int, typer.Option("--limit", "-n", help="The maximum number of threads.")]


def threads(  # noqa: PLR0917 - one for each option
    user: User,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    app: App = "default",
    project: Project = "default",
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List the threads of a user, the newest message first."""
    scope = Scope(choose_tenant(tenant, system=system), user, app_id=app, project_id=project)
    found = run_in_store(
        require_database(store), lambda opened: opened.list_threads(limit=limit, scope=scope)
    )
    if json:
        write_json([thread.to_dict() for thread in found])
    else:
        _show(found)


def _show(found: list[Thread]) -> None:
    from rich.table import Table

    table = Table("thread", "title", "messages", "last message", box=None)
    for thread in found:
        last = thread.last_message_at
        when = "never" if last is None else f"{last:%Y-%m-%d %H:%M}"
        table.add_row(
            make_printable(thread.id), make_printable(thread.title), str(thread.message_count), when
        )
    make_console().print(table if found else "No threads.")
