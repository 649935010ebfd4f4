"""`recollect history`: what was said."""

import asyncio
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
)
from recollect.cli.output import make_console, make_printable, write_json
from recollect.errors import MemoryNotFoundError
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.opening import open_store
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
    found = asyncio.run(_read(require_database(store), scope, limit))
    if json:
        write_json([message.to_dict() for message in found])
    else:
        _show(found)


async def _read(url: str, scope: Scope, limit: int) -> list[Message]:
    async with open_store(url) as store:
        if scope.thread_id is None:
            return (await store.user_history(limit=limit, scope=scope))[::-1]
        return await _of_thread(store, scope, limit)


async def _of_thread(store: Store, scope: Scope, limit: int) -> list[Message]:
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
