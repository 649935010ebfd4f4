"""A chat through a pipe: every line is a prompt, every answer is printed whole or as JSON."""

import json
import logging
from collections.abc import Sequence

import typer

from recollect.cli.chat.loop import ChatLoop
from recollect.cli.errors import find_exit_code, format_error
from recollect.cli.output import make_printable, say, write_lines
from recollect.errors import InvalidArgumentError, RecollectError
from recollect.runtime.loader import AgentRuntime
from recollect.runtime.loop import AgentRunResult


class PipedChat:
    """Answers the lines of the standard input, in order, in one session."""

    def __init__(
        self, runtime: AgentRuntime, session: str | None, skills: Sequence[str], *, as_json: bool
    ) -> None:
        """Without a session, start a new one."""
        self._runtime = runtime
        self._session = session or runtime.loop.sessions.new_id()
        self._skills = skills
        self._as_json = as_json

    def run(self) -> int:
        """Answer everything and return the exit code: that of the first prompt that failed."""
        logging.getLogger("recollect").addHandler(logging.NullHandler())  # we say the same ourselves
        loop = ChatLoop(self._runtime)
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
            prompt = _read_prompt(line)
            if not prompt:
                return 0
            result = await self._runtime.loop.run(prompt, self._session, self._skills)
        except Exception as error:  # noqa: BLE001 - a tool or a guard may raise anything; the next line may work
            self._show_error(error)
            return find_exit_code(error)
        self._show(result)
        return 0

    def _show(self, result: AgentRunResult) -> None:
        if self._as_json:
            write_lines(json.dumps(result_to_json(result), ensure_ascii=False, default=str))
        elif result.tripwire is not None:
            say(f"Blocked by {result.tripwire.processor_id}: {result.tripwire.reason}")
        else:
            write_lines(make_printable(result.text))
            _show_problems(result)

    def _show_error(self, error: Exception) -> None:
        if self._as_json:
            code = error.code if isinstance(error, RecollectError) else RecollectError.code
            problem = {"code": code, "message": format_error(error)}
            write_lines(json.dumps({"session_id": self._session, "error": problem}, ensure_ascii=False))
        else:
            say(f"Error: {format_error(error)}")


def _show_problems(result: AgentRunResult) -> None:
    errors = dict.fromkeys(entry.error for entry in result.trace if entry.error)
    if errors or not result.saved:
        what = "Memory was not all there for this answer" if result.saved else "This turn could not be saved"
        say(": ".join((what, " ".join("; ".join(errors).split()))) if errors else f"{what}.")


def result_to_json(result: AgentRunResult) -> dict[str, object]:
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


def _read_prompt(line: bytes) -> str:
    """Return what a line says; an empty one is no prompt."""
    try:
        return line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InvalidArgumentError("stdin", "has a line that is not text in UTF-8") from None
