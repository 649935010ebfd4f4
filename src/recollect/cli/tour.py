"""`recollect tour`: what recollect does, shown by doing it on a private store in memory.

Each chapter is a function whose source is printed and whose output follows, so what is shown is what runs.
"""

import ast
import asyncio
import inspect
import textwrap
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from recollect.agent.agent import Agent
from recollect.cli.output import make_console
from recollect.errors import MissingExtraError
from recollect.memory.memory import Memory
from recollect.messages import Message, ToolCall, ToolResult
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store

if TYPE_CHECKING:
    from rich.console import Console

    from recollect.users import Users

Show: TypeAlias = Callable[[object], None]
"""Prints what a chapter wants to show."""

Chapter: TypeAlias = Callable[[Store, "Users", Show], Awaitable[None]]
"""A part of the tour: its docstring is the heading, its lines are what is shown and run."""

_NEXT_STEPS = """\
Next:
  README.md                  the same in ten lines of your own, sync or async
  docs/storage.md            what is kept, how it is kept safe, and how to run it on PostgreSQL
  recollect --help           export, import, erase, threads and history for a database of yours,
                             e.g. recollect history --store sqlite:///memory.db --user ada --tenant 1
  make test, make bench      see it hold, and see how fast it is"""


def tour() -> None:
    """Take a short tour: every call is real, nothing is left behind."""
    asyncio.run(_tour(make_console()))


async def _tour(out: "Console") -> None:
    from recollect.users import Users

    out.print("A tour of recollect, on a private store in memory. Every line of output is real.\n")
    async with open_store("sqlite://") as store:
        for number, chapter in enumerate(CHAPTERS, 1):
            out.print(f"{number}. {inspect.getdoc(chapter)}", style="bold", markup=False)
            out.print(_highlight(_read_body(chapter)))
            try:
                await chapter(store, Users(store), lambda value: _print_result(out, value))
            except MissingExtraError as error:
                _print_result(out, error)
            out.print()
    out.print(_NEXT_STEPS, markup=False)


async def _history(_: Store, users: "Users", show: Show) -> None:
    """Conversation history, for the users of many tenants."""
    await users.add_message("ada", "user", "I moved to Lisbon in May.", tenant_id=1)
    await users.add_message("ada", "assistant", "Noted: Lisbon, since May.", tenant_id=1)
    for message in await users.get_recent_messages("ada", tenant_id=1):
        show(f"{message.role}: {message.content}")


async def _memory(_: Store, users: "Users", show: Show) -> None:
    """User memory: any JSON under a key."""
    await users.set_memory("ada", "preferences", {"language": "pt", "tone": "brief"}, tenant_id=1)
    show(await users.get_memory("ada", "preferences", tenant_id=1))


async def _state(_: Store, users: "Users", show: Show) -> None:
    """User state: the mode that a user is in."""
    await users.set_user_state("ada", "onboarding", tenant_id=1)
    state = await users.get_user_state("ada", tenant_id=1)
    show(state and state.mode)


async def _tenants(_: Store, users: "Users", show: Show) -> None:
    """Tenants see nothing of each other; None, the system's own data, is one more of them."""
    for tenant_id in (1, 2, None):
        show((tenant_id, await users.count_messages("ada", tenant_id=tenant_id)))


async def _tools(store: Store, _: "Users", show: Show) -> None:
    """A turn is kept whole or not at all, and a limit never parts a tool call from its result."""
    scope = Scope(tenant_id=1, user_id="ada", thread_id="trip")
    turn = [
        Message("user", "Will it rain tomorrow?"),
        Message("assistant", [ToolCall("c1", "weather", {"city": "Lisbon"})]),
        Message("tool", [ToolResult("c1", "weather", {"rain": False})]),
        Message("assistant", "No, it stays dry."),
    ]
    await store.append_turn(turn, scope=scope)
    for message in await store.last_messages(2, scope=scope):
        show(f"{message.role}: {message.text or message.parts[0]}")


async def _agent(store: Store, _: "Users", show: Show) -> None:
    """An agent that remembers, with the offline model: it needs no key, and only quotes what memory shows."""
    agent = Agent("offline", memory=Memory(store, tenant_id=1, user_id="ada"))
    await agent.generate("My dog is called Rex.")
    result = await agent.generate("What is my dog called?")
    show(result.text)
    show([f"{entry.processor_id} ({entry.phase})" for entry in result.trace])


async def _export(store: Store, _: "Users", show: Show) -> None:
    """Everything about a user goes out as JSON lines, and comes back the same."""
    lines = [line async for line in store.export(scope=Scope(1, "ada"))]
    show(await store.import_(lines, scope=Scope(2, "ada")))


async def _erase(store: Store, users: "Users", show: Show) -> None:
    """Erasing removes every row of every kind, and looks again before it says so."""
    report = await store.erase(scope=Scope(1, "ada"))
    show(dict(report.counts))
    show(await users.get_conversation_history("ada", tenant_id=1))


CHAPTERS: tuple[Chapter, ...] = (_history, _memory, _state, _tenants, _tools, _agent, _export, _erase)
"""What the tour shows, in order."""


def _read_body(chapter: Chapter) -> str:
    """Return the lines of a chapter below its docstring."""
    source = textwrap.dedent(inspect.getsource(chapter))
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)  # noqa: S101 - every chapter is one
    return textwrap.dedent("\n".join(source.splitlines()[function.body[1].lineno - 1 :]))


def _highlight(code: str) -> object:
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_dark").highlight(textwrap.indent(code, "   "))
    text.rstrip()
    return text


def _print_result(out: "Console", value: object) -> None:
    out.print("   → " + str(value).replace("\n", "\n     "), style="green", markup=False)
