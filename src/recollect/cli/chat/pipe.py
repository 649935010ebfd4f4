"""A chat through a pipe: every line is a prompt, every answer is printed whole or as JSON."""

import json
import logging
from collections.abc import Sequence

import typer

from recollect.cli.chat.loop import ChatLoop
from recollect.cli.output import printable, say, write_lines
from recollect.cli.problems import exit_code, one_line
from recollect.errors import InvalidArgumentError, RecollectError
from recollect.runtime.loader import Engine
from recollect.runtime.loop import AgentRunResult


class PipedChat:
    """Answers the lines of the standard input, in order, in one session."""

    def __init__(self, engine: Engine, session: str | None, skills: Sequence[str], *, as_json: bool) -> None:
        """Talk in a session, a new one where none is named."""
        self._engine = engine
        self._session = session or engine.loop.sessions.new_id()
        self._skills = skills
        self._as_json = as_json

    def run(self) -> int:
        """Answer everything and return the exit code: that of the first prompt that failed."""
        logging.getLogger("recollect").addHandler(logging.NullHandler())  # we say the same ourselves
        loop = ChatLoop(self._engine)
        code = 0
        try:
            for line in typer.get_binary_stream("stdin"):
                failed = loop.run(self._answer(line))
                code = code or failed
        finally:
            loop.close()
        return code

    async def _answer(self, line: bytes) -> int:
        try:
            prompt = _prompt(line)
            if not prompt:
                return 0
            result = await self._engine.loop.run(prompt, self._session, self._skills)
        except Exception as error:  # noqa: BLE001 - a tool or a guard may raise anything; the next line may work
            self._failed(error)
            return exit_code(error)
        self._show(result)
        return 0

    def _show(self, result: AgentRunResult) -> None:
        if self._as_json:
            write_lines(json.dumps(as_json(result), ensure_ascii=False, default=str))
        elif result.tripwire is not None:
            say(f"Blocked by {result.tripwire.processor_id}: {result.tripwire.reason}")
        else:
            write_lines(printable(result.text))
            _tell_problems(result)

    def _failed(self, error: Exception) -> None:
        if self._as_json:
            code = error.code if isinstance(error, RecollectError) else RecollectError.code
            problem = {"code": code, "message": one_line(error)}
            write_lines(json.dumps({"session_id": self._session, "error": problem}, ensure_ascii=False))
        else:
            say(f"Error: {one_line(error)}")


def _tell_problems(result: AgentRunResult) -> None:
    errors = dict.fromkeys(entry.error for entry in result.trace if entry.error)
    if errors or not result.saved:
        what = "Memory was not all there for this answer" if result.saved else "This turn could not be saved"
        say(": ".join((what, " ".join("; ".join(errors).split()))) if errors else f"{what}.")


def as_json(result: AgentRunResult) -> dict[str, object]:
    """Return a result for programs to read; the trace holds no message text."""
    trip = result.tripwire
    return {
        "session_id": result.session_id,
        "run_id": result.run_id,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "saved": result.saved,
        "tripwire": None if trip is None else trip.to_dict(),
        "trace": result.trace.to_list(),
    }


def _prompt(line: bytes) -> str:
    """Return what a line says; an empty one is no prompt."""
    try:
        return line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InvalidArgumentError("stdin", "has a line that is not text in UTF-8") from None
