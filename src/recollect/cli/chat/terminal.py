"""A chat at a terminal: answers stream, Ctrl-C ends the answer, and commands begin with a slash."""

import importlib
import io
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias, cast

import typer

from recollect.backends.base import StartedRun
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.cli.chat.loop import ChatLoop, report_waits
from recollect.cli.chat.why import explain
from recollect.cli.errors import format_error
from recollect.cli.output import make_printable
from recollect.errors import RecollectError
from recollect.runtime.loader import AgentRuntime
from recollect.runtime.loop import AgentRunResult, SessionStream
from recollect.storage.records import AuditEvent
from recollect.validation import check_id

_log = logging.getLogger("recollect")

Command: TypeAlias = Callable[["TerminalChat", str], bool]
"""What a line that begins with a slash does; True ends the chat."""

PROMPT = "you> "

_FIRST_WORDS_LENGTH = 60


class TerminalChat:
    """The conversation of one person at one terminal."""

    def __init__(
        self, runtime: AgentRuntime, session: str | None, skills: Sequence[str], *, is_new: bool
    ) -> None:
        """Go on with a session, by default the last one."""
        self._runtime = runtime
        self._session = session
        self._skills = skills
        self._is_new = is_new
        self._last: AgentRunResult | None = None
        self._stream: SessionStream | None = None
        self._is_at_start = True
        self._loop = ChatLoop(runtime)

    def run(self) -> None:
        """Read lines and answer them until the person leaves."""
        with suppress(ImportError):
            importlib.import_module("readline")  # arrow keys and editing; not there on every system
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal without UTF-8 shows what it can.
            cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="replace")
        _log.addHandler(logging.NullHandler())  # it would write into the answers; /why has the same
        try:
            self._greet()
            while self._handle_next_line():
                pass
        finally:
            self._loop.close()

    def _greet(self) -> None:
        config = self._runtime.config
        show(f"recollect · model {config.model} · memory {config.mode} · /help for commands")
        if self._session is None and not self._is_new:
            self._resume_last_session()
        self._session = self._session or self._runtime.loop.sessions.new_id()

    def _resume_last_session(self) -> None:
        """Find the last session; a store that cannot be read costs the memory, and not the chat."""
        try:
            recent = self._loop.run(self._runtime.loop.sessions.recent(1))
        except RecollectError as error:
            show(f"What was said before cannot be read: {format_error(error)}")
            return
        for last in recent:
            self._session = last.id
            show(f"Going on with session {last.id} ({last.message_count} messages); /new for another.")

    def _handle_next_line(self) -> bool:
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
        except UnicodeDecodeError:
            show("(that was no text in the terminal's encoding; nothing was asked)")
            return True
        try:
            return self._handle_line(line)
        except KeyboardInterrupt:
            typer.echo()
            self._show_stopped()
        except Exception as error:  # noqa: BLE001 - a tool or a guard may raise anything; the chat goes on
            _log.debug("an answer failed", exc_info=error)
            typer.echo()
            show(f"Error: {format_error(error)}")
        return True

    def _handle_line(self, line: str) -> bool:
        self._stream = None
        if line.startswith("/"):
            return not self._run_command(line)
        if line:
            self._last = self._loop.run(self._answer(line))
        return True

    def _show_stopped(self) -> None:
        """Say what became of a turn that was broken off."""
        stream, is_kept = self._stream, False
        if stream is None:
            show("(stopped)")
            return
        with suppress(RecollectError, KeyboardInterrupt):
            is_kept = self._loop.run(self._runtime.loop.sessions.has_run(stream.session_id, stream.run_id))
        show(f"(stopped; {'what you saw of this turn is kept' if is_kept else 'this turn is not kept'})")

    async def _answer(self, prompt: str) -> AgentRunResult:
        self._is_at_start = True
        async with self._runtime.loop.stream(prompt, self._session, self._skills) as stream:
            self._stream = stream
            async with report_waits(stream.trace, self._show_on_own_line):
                async for event in stream:
                    if event.type == "text":
                        typer.echo(make_printable(event.text), nl=False)
                        self._is_at_start = event.text.endswith("\n")
                    elif event.type == "tool_call" and event.tool_call is not None:
                        self._show_on_own_line(f"[{event.tool_call.name} …]")
                result = await stream.result()
        if not self._is_at_start:
            typer.echo()
        if result.tripwire is not None:
            show(f"Blocked by {result.tripwire.processor_id}: {result.tripwire.reason} (/why for more)")
        elif not result.saved:
            show("This turn could not be saved; /why shows the reason.")
        elif any(entry.error for entry in result.trace):
            show("Memory was not all there for this answer; /why shows the reason.")
        return result

    def _show_on_own_line(self, text: str) -> None:
        """Show a line of the program's own on a line of its own, in the middle of an answer."""
        if not self._is_at_start:
            typer.echo()
        self._is_at_start = True
        show(text)

    def _run_command(self, line: str) -> bool:
        name, _, rest = line.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            show(f"There is no command {name}; /help lists them.")
            return False
        return command(self, rest.strip())

    def why(self, _: str) -> bool:
        """Show what was recalled for the last answer and why, and what each part of the pipeline did."""
        last = self._last
        show("Nothing was asked yet." if last is None else self._loop.run(self._explain(last)))
        return False

    async def _explain(self, last: AgentRunResult) -> str:
        # In the event loop, because background persistence still writes into the trace.
        found: list[AuditEvent] = []
        with suppress(RecollectError):  # the trace explains much without them
            found = await self._runtime.loop.sessions.events_of(last.session_id, last.run_id)
        return explain(last, found)

    def memory(self, _: str) -> bool:
        """Show what long-term memory holds for this session, or how it is set up."""
        for name, value in self._runtime.backend.status().items():
            show(f"{name}: {value}")
        if self._runtime.config.gateway is None:
            run = StartedRun(self._session or "", "chat-memory", "/memory")
            found = self._loop.run(self._runtime.backend.recall_before_run(run))
            show(found.snapshot or "It holds nothing yet.")
            for problem in found.problems:
                show(f"! {format_error(problem)}")
            self._show_pending()
        else:
            show("The gateway holds it; /why shows what it recalled for the last answer.")
        return False

    def _show_pending(self) -> None:
        """Say how many changes wait for the person; nobody else can accept them."""
        backend = self._runtime.backend
        waiting = len(backend.folder.pending()) if isinstance(backend, CuratedMemoryBackend) else 0
        if waiting:
            show(f"{waiting} waiting for approval: recollect memory approve")

    def sessions(self, _: str) -> bool:
        """List the sessions, the latest first."""
        found = self._loop.run(self._runtime.loop.sessions.summaries())
        for thread, words in ((summary.session, summary.first_words) for summary in found):
            mark = "*" if thread.id == self._session else " "
            when = thread.last_message_at or thread.created_at
            began = " ".join(words.split())[:_FIRST_WORDS_LENGTH]
            show(f"{mark} {thread.id}  {when:%Y-%m-%d %H:%M}  {thread.message_count} messages  {began}")
        show("/use NAME goes on with one of them." if found else "There are no sessions yet.")
        return False

    def new(self, _: str) -> bool:
        """Begin a new session."""
        self._session = self._runtime.loop.sessions.new_id()
        self._last = None
        show(f"Session {self._session}.")
        return False

    def use(self, name: str) -> bool:
        """Go on with the session of that name, as in /use monday."""
        session = check_id(name or self._session, "session")
        found = self._loop.run(self._runtime.loop.sessions.find(session))
        self._session = session
        show(f"Session {session} ({f'{found.message_count} messages' if found else 'a new one'}).")
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
    typer.secho(make_printable(text), dim=True)
