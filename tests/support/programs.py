"""Python programs that begin at once: forked from a process that has imported the command line already.

Starting Python and importing an agent takes a second of processor time, a fork some milliseconds. Such a
program is a process like any other: it has its own streams and folder, and ends as Python programs do. Only
what happens while Python itself starts is not seen by tests that use it.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from tests.support.waiting import GENEROUS

ROOT = Path(__file__).parents[2]
MAIN = "from recollect.cli.app import main; main()"
CLOSED = -1
"""In the place of a stream that the program does not have."""

PRELOADED = (
    "recollect.agent.provider",
    "recollect.backends.curated.backend",
    "recollect.backends.gateway.backend",
    "recollect.cli.app",
    "recollect.cli.chat.pipe",
    "recollect.cli.chat.terminal",
    "recollect.runtime.loader",
    "recollect.storage.sqlite.engine",
)


class Program:
    """`python -c code arguments`, with the given descriptors as its three streams."""

    def __init__(
        self,
        code: str,
        arguments: Sequence[str],
        folder: Path,
        streams: tuple[int, int, int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, in a session of its own as a shell does."""
        self._line, theirs = socket.socketpair()
        request = {
            "code": code,
            "arguments": ["-c", *arguments],
            "folder": str(folder),
            "environment": dict(os.environ if environment is None else environment),
            "streams": [number for number, stream in enumerate(streams) if stream != CLOSED],
        }
        given = [stream for stream in streams if stream != CLOSED]
        with theirs:
            socket.send_fds(_server(), [json.dumps(request).encode()], [theirs.fileno(), *given])
        self._line.settimeout(GENEROUS)
        self._said = self._line.makefile("rb")
        self.pid = int(self._said.readline())
        self._code: int | None = None

    def wait(self, seconds: float = GENEROUS) -> int:
        """Wait for its end and return its exit code."""
        if self._code is None:
            self._line.settimeout(seconds)
            self._code = int(self._said.readline())
            self._said.close()
            self._line.close()
        return self._code

    def kill(self) -> None:
        """End it without a word; a program that has ended is left alone."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def run(
    arguments: Sequence[str],
    folder: Path,
    given: bytes = b"",
    *,
    code: str = MAIN,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program to its end and return what it printed; streams may be descriptors of the caller's."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        reading, writing = os.pipe()
        try:
            streams = (
                reading if stdin is None else stdin,
                out.fileno() if stdout is None else stdout,
                errors.fileno() if stderr is None else stderr,
            )
            program = Program(code, arguments, folder, streams, environment)
        finally:
            os.close(reading)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(given)
        returned = program.wait()
        return subprocess.CompletedProcess([*arguments], returned, _content(out), _content(errors))


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@cache
def _server() -> socket.socket:
    """Return the line to the process that programs are forked from, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # who forks must not have threads
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _serve(line: socket.socket) -> None:
    """Fork a program for each request; return in each of them."""
    for name in PRELOADED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is not waited for
    while True:
        message, descriptors, _, _ = socket.recv_fds(line, 2**20, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            line.close()
            _mind(descriptors)
            return _become(json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _mind(descriptors: list[int]) -> None:
    """Fork the program and return in it; wait here for its end and tell of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        return
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    os.write(descriptors[0], f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptors[0], f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Turn this process into the program that was asked for."""
    os.setsid()
    given = dict(zip(request["streams"], descriptors[1:], strict=True))
    for number in range(3):
        os.dup2(given[number], number) if number in given else os.close(number)
    os.closerange(3, max(descriptors) + 1)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.path[0] = ""
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin) if 0 in given else cast("Any", None)
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout) if 1 in given else cast("Any", None)
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr) if 2 in given else cast("Any", None)
    exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own


def _stream(number: int, like: Any) -> Any:  # noqa: ANN401 - a text stream
    """Return a stream as Python itself makes it when it starts."""
    if number == 0:
        return open(0, encoding=like.encoding, errors=like.errors, closefd=False)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = open(number, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115 - open until the end
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=lines, write_through=at_once)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
