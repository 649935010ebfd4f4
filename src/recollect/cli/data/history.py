"""`recollect history`: what was said."""

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
from recollect.errors import MemoryNotFoundError
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.store import Store

InThread = Annotated[str | None, typer.Option("--thread", help="Show one thread, tool calls included.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="How many of the newest messages to show.")]


def history(  # noqa: PLR0913, PLR0917 - one for each option
    user: User,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    thread: InThread = None,
    app: App = "default",
    project: Project = "default",
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Show the newest messages of a user, oldest first: of all threads, or of one."""
    scope = Scope(choose_tenant(tenant, system=system), user, thread, app, project)
    found = run_in_store(require_database(store), lambda opened: _read(opened, scope, limit))
    if json:
        write_json([message.to_dict() for message in found])
    else:
        _show(found)


async def _read(store: Store, scope: Scope, limit: int) -> list[Message]:
    if scope.thread_id is None:
        return (await store.user_history(limit=limit, scope=scope))[::-1]
    if await store.get_thread(scope=scope) is None:
        raise MemoryNotFoundError(f"there is no thread {scope.thread_id!r}")
    return await store.last_messages(limit, scope=scope)


def _show(found: list[Message]) -> None:
    from rich.text import Text

    lines = Text()
    for message in found:
        lines.append(f"{message.created_at:%Y-%m-%d %H:%M} ", style="dim")
        lines.append(f"{message.role}: ", style="bold")
        lines.append(make_printable(_content(message)) + "\n")
    make_console().print(lines if found else "No messages.", end="" if found else "\n")


def _content(message: Message) -> str:
    calls = [f"[calls {call.name} {dict(call.arguments)}]" for call in message.tool_calls]
    results = [f"[{result.name} gave {result.content!r}]" for result in message.tool_results]
    return " ".join(filter(None, [message.text, *calls, *results]))
