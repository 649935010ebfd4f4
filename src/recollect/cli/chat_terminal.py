"""A chat at a terminal: answers stream, Ctrl-C ends the answer, and commands begin with a slash."""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import typer

from recollect.backends.base import StartedRun
from recollect.cli.chat_why import explanation
from recollect.cli.output import printable
from recollect.cli.problems import one_line
from recollect.errors import RecollectError
from recollect.runtime.loader import Engine
from recollect.runtime.result import AgentRunResult

Command: TypeAlias = Callable[["TerminalChat", str], bool]
"""What a line that begins with a slash does; True ends the chat."""

PROMPT = "you> "


class TerminalChat:
    """The conversation of one person at one terminal."""

    def __init__(self, engine: Engine, session: str | None, skills: Sequence[str], *, is_new: bool) -> None:
        """Go on with a session, by default the last one."""
        self._engine = engine
        self._session = session
        self._skills = skills
        self._is_new = is_new
        self._last: AgentRunResult | None = None
        self._runner = asyncio.Runner()

    def run(self) -> None:
        """Talk until the person leaves."""
        with suppress(ImportError):
            importlib.import_module("readline")  # arrow keys and editing; not there on every system
        with self._runner:
            try:
                self._greet()
                while self._take_line():
                    pass
            finally:
                self._runner.run(self._engine.close())

    def _greet(self) -> None:
        config = self._engine.config
        show(f"recollect · model {config.model} · memory {config.mode} · /help for commands")
        if self._session is None and not self._is_new:
            recent = self._runner.run(self._engine.loop.sessions.recent(1))
            if recent:
                last = recent[0]
                self._session = last.id
                show(f"Going on with session {last.id} ({last.message_count} messages); /new for another.")
        self._session = self._session or self._engine.loop.sessions.new_id()

    def _take_line(self) -> bool:
        """Do what the next line says; False when the person has left."""
        try:
            line = input(PROMPT).strip()
        except EOFError:
            typer.echo()
            return False
        except KeyboardInterrupt:
            typer.echo()
            show("(/quit or Ctrl-D to leave)")
            return True
        try:
            if line.startswith("/"):
                return not self._do(line)
            if line:
                self._last = self._runner.run(self._answered(line))
        except KeyboardInterrupt:
            typer.echo()
            show("(stopped; this turn is not kept)")
        except RecollectError as error:
            typer.echo()
            show(f"Error: {one_line(error)}")
        return True

    async def _answered(self, prompt: str) -> AgentRunResult:
        async with self._engine.loop.stream(prompt, self._session, self._skills) as stream:
            async for event in stream:
                if event.type == "text":
                    typer.echo(printable(event.text), nl=False)
                elif event.type == "tool_call" and event.tool_call is not None:
                    show(f"[{event.tool_call.name} …]")
            result = await stream.result()
        typer.echo()
        if result.tripwire is not None:
            show(f"Blocked by {result.tripwire.processor_id}: {result.tripwire.reason} (/why for more)")
        elif not result.saved:
            show("This turn could not be saved; /why shows the reason.")
        return result

    def _do(self, line: str) -> bool:
        name, _, rest = line.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            show(f"There is no command {name}; /help lists them.")
            return False
        return command(self, rest.strip())

    def why(self, _: str) -> bool:
        """Show what was recalled for the last answer, and what each part of the pipeline did."""
        show("Nothing was asked yet." if self._last is None else explanation(self._last))
        return False

    def memory(self, _: str) -> bool:
        """Show what long-term memory holds for this session, or how it is set up."""
        for name, value in self._engine.backend.status().items():
            show(f"{name}: {value}")
        if self._engine.config.gateway is None:
            run = StartedRun(self._session or "", "chat-memory", "/memory")
            found = self._runner.run(self._engine.backend.recall_before_run(run))
            show(found.snapshot or "It holds nothing yet.")
        return False

    def sessions(self, _: str) -> bool:
        """List the sessions, the latest first."""
        for thread in self._runner.run(self._engine.loop.sessions.recent()):
            mark = "*" if thread.id == self._session else " "
            when = thread.last_message_at or thread.created_at
            show(f"{mark} {thread.id}  {when:%Y-%m-%d %H:%M}  {thread.message_count} messages")
        return False

    def new(self, _: str) -> bool:
        """Begin a new session."""
        self._session = self._engine.loop.sessions.new_id()
        self._last = None
        show(f"Session {self._session}.")
        return False

    def use(self, name: str) -> bool:
        """Go on with the session of that name."""
        if name:
            self._session = name
        show(f"Session {self._session}.")
        return False

    def help(self, _: str) -> bool:
        """List the commands."""
        for name, command in COMMANDS.items():
            show(f"{name:<10} {(command.__doc__ or '').partition('.')[0]}.")
        return False

    def quit(self, _: str) -> bool:
        """Leave."""
        return True


COMMANDS: dict[str, Command] = {
    "/why": TerminalChat.why,
    "/memory": TerminalChat.memory,
    "/sessions": TerminalChat.sessions,
    "/use": TerminalChat.use,
    "/new": TerminalChat.new,
    "/help": TerminalChat.help,
    "/quit": TerminalChat.quit,
}
"""The commands of a chat."""


def show(text: str) -> None:
    """Print a line that the program says, not the agent."""
    typer.secho(printable(text), dim=True)
