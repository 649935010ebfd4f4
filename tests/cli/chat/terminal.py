"""A real terminal for tests: a child process on the other end of a pseudo-terminal."""

import errno
import os
import pty
import re
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.programs import MAIN, Program
from tests.support.waiting import GENEROUS

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """A program at a terminal: what is typed goes in, what it prints can be waited for."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, *, code: str = MAIN, seconds: float = GENEROUS
    ) -> None:
        """Start our command, or other Python code, in a folder; every wait is over after so many seconds."""
        self._seconds = seconds
        self._screen, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT")}
        self._process = Program(
            code,
            arguments,
            folder,
            (theirs, theirs, theirs),
            environment | {"TERM": "xterm", "PYTHONUNBUFFERED": "1"},
        )
        os.close(theirs)
        self._text = ""
        self._seen = 0

    def type(self, text: str) -> None:
        """Type text as it is; keys are their codes, and bytes that are no text surrogates."""
        os.write(self._screen, text.encode(errors="surrogateescape"))

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        os.killpg(self._process.pid, signal.SIGINT)

    def interrupt_until(self, wanted: str) -> str:
        """Do what Ctrl-C does, again and again until a text is printed.

        Readline prints its prompt a moment before it waits for a key, and notices no signal in between.
        """
        until = time.monotonic() + self._seconds
        while wanted not in self._text[self._seen :]:
            assert time.monotonic() < until, f"no {wanted!r} in {self._text[self._seen :]!r}"
            self.interrupt()
            pause = time.monotonic() + 1
            while wanted not in self._text[self._seen :] and self._read(pause - time.monotonic()):
                pass
        return self.wait_for(wanted)

    def kill(self) -> None:
        """End the program without a word, as `kill -9` does."""
        self._process.kill()

    def wait_for(self, wanted: str) -> str:
        """Wait until a text is printed after what was waited for before; return all up to it."""
        until = time.monotonic() + self._seconds
        while wanted not in self._text[self._seen :]:
            assert self._read(until - time.monotonic()), f"no {wanted!r} in {self._text[self._seen :]!r}"
        end = self._text.index(wanted, self._seen) + len(wanted)
        found, self._seen = self._text[self._seen : end], end
        return found

    def ended(self) -> int:
        """Wait for the program's end and return its exit code."""
        until = time.monotonic() + self._seconds
        while self._read(until - time.monotonic()):
            pass
        return self._process.wait(max(1, until - time.monotonic()))

    def __enter__(self) -> Self:
        """Return the terminal itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program, if it is still there."""
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._screen], [], [], max(0, seconds))
        if not ready:
            return False
        try:
            raw = os.read(self._screen, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # what Linux says at the end of a pseudo-terminal
                raise
            return False
        self._text += _CODES.sub("", raw.decode(errors="replace")).replace("\r", "")
        return bool(raw)
