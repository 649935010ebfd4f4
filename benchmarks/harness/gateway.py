"""A memory gateway for measurements that answers at once, or never: a separate process on loopback.

The process prints its port and serves until its standard input is closed.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

_FOUND = {
    "results": [
        {
            "id": f"m{number}",
            "session_id": "chat:earlier",
            "text": "The boat is red and lies in Lisbon.",
            "score": 0.5,
        }
        for number in range(8)
    ]
}
_DONE = {"status": "ok"}


@contextmanager
def gateway_process(*arguments: str) -> Generator[int]:
    """Run a gateway in another process and yield its port; with `"silent"` it never answers."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it was asked for
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def serve(*, answers: bool) -> None:
    """Serve until the standard input is closed."""
    server = await asyncio.start_server(_answer if answers else _keep_silent, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                int(line.partition(":")[2])
                for line in head.lower().split("\r\n")
                if line.startswith("content-length:")
            )
            await reader.readexactly(length)
            body = json.dumps(_FOUND if "/memories/search" in head else _DONE).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            await writer.drain()
    writer.close()


async def _keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(answers="silent" not in sys.argv))
