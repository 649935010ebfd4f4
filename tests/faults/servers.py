"""A PostgreSQL server of a test's own, to be killed and started again on the same data."""

import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from tests.support.databases import start_server
from tests.support.waiting import GENEROUS


class OwnServer:
    """A server that waits for the disk, as a real one does."""

    def __init__(self, folder: Path) -> None:
        """Make the data folder and start the server."""
        self.folder = folder
        self._server: Any = start_server(folder)
        self.url: str = self._server.get_uri()

    def stop_at_once(self) -> None:
        """Immediate shutdown: no checkpoint, no goodbye to clients."""
        processes = self._processes()
        processes[0].send_signal(signal.SIGQUIT)
        self._wait_for(processes)

    def kill(self) -> None:
        """Kill the server and all its helpers with SIGKILL."""
        processes = self._processes()
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:  # they go down with the first one
                continue
        self._wait_for(processes)

    def start(self) -> None:
        """Start it again on the same data; it recovers by itself."""
        self._server.ensure_postgres_running()

    def reload(self) -> None:
        """Have it read its configuration files again."""
        self._processes()[0].send_signal(signal.SIGHUP)

    def cleanup(self) -> None:
        """Stop it for good."""
        self.start()
        self._server.cleanup()

    def _processes(self) -> list[psutil.Process]:
        first = psutil.Process(self._server.get_pid())
        return [first, *first.children(recursive=True)]

    @staticmethod
    def _wait_for(processes: list[psutil.Process]) -> None:
        _, alive = psutil.wait_procs(processes, timeout=GENEROUS)
        assert not alive, f"still running after {GENEROUS} s: {alive}"


@contextmanager
def running_server() -> Generator[OwnServer]:
    """Provide a server; its folder has a short name, because a socket's path may not be long."""
    folder = Path(tempfile.mkdtemp(prefix="rc-"))
    try:
        server = OwnServer(folder / "d")
        try:
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
