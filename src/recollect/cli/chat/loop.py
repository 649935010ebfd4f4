"""The event loop of a chat, in a thread beside the one that waits for the person; and what it waits for.

Work that continues after an answer (`persist: after`) so continues while somebody types or a pipe is
silent. A person who sees nothing happen does not know whether to stop it, so a chat says what it waits for.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import wait
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from recollect.cli.output import say
from recollect.concurrency.portal import Portal
from recollect.runtime.loader import AgentRuntime
from recollect.trace import Trace, TraceEntry

T = TypeVar("T")
_POLL_SECONDS = 0.2  # seconds, after which a thread that waits looks whether it was interrupted
_END_PATIENCE_SECONDS = 0.5  # seconds, until it is said what is waited for
_MAX_END_SECONDS = 10.0  # seconds that work may take to end once it was stopped
_PATIENCE_SECONDS = 2.0  # seconds, until it is said what is waited for
_CHECK_SECONDS = 0.25  # seconds between two looks
_DESCRIPTIONS = {
    ("message-history", "input"): "reading this session",
    ("message-persistence", "commit"): "saving this turn; another process may be writing to the store",
    ("long-term-memory", "input"): "asking long-term memory",
    ("long-term-memory", "commit"): "telling long-term memory of this turn",
}


class ChatLoop:
    """Runs the coroutines of one chat."""

    def __init__(self, runtime: AgentRuntime) -> None:
        """Start the thread; `close` ends it."""
        self._runtime = runtime
        # Ctrl-C is for the thread that waits for the person: taken by another, it would not wake that one.
        with _block_interrupts():
            self._portal = Portal("chat", advice="start it again")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work and wait for it; Ctrl-C ends it, and it has ended when this does."""
        ended = threading.Event()

        async def run_work() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self._portal.start(run_work())
        try:
            # A Ctrl-C just before a thread goes to sleep does not wake it, so it never sleeps for long.
            while not wait([future], _POLL_SECONDS).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(_MAX_END_SECONDS)
            raise

    def close(self) -> None:
        """Wait for background persistence, unless Ctrl-C ends it, and close the runtime."""
        closing = self._portal.start(self._runtime.close())
        try:
            with suppress(KeyboardInterrupt):
                if (
                    not wait([closing], _END_PATIENCE_SECONDS).done
                    and sys.stderr is not None
                    and sys.stderr.isatty()
                ):
                    say("(memory is still being told of the last turn; Ctrl-C leaves without)")
                closing.result()
        finally:
            self._portal.close()


@contextmanager
def _block_interrupts() -> Generator[None]:
    """Block SIGINT in the threads that start meanwhile, and in the threads that those start."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows the main thread gets it anyway
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@asynccontextmanager
async def report_waits(trace: Trace, tell: Callable[[str], None]) -> AsyncGenerator[None]:
    """While the block runs, report steps before the model call or after its answer that take long."""
    telling = asyncio.create_task(_report(trace, tell))
    try:
        yield
    finally:
        telling.cancel()


async def _report(trace: Trace, tell: Callable[[str], None]) -> None:
    seen: TraceEntry | None = None
    told: TraceEntry | None = None
    since = time.monotonic()
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        entry = trace.get_current()
        if entry is None or entry is told or entry.phase not in {"input", "commit"}:
            continue
        if entry is not seen:  # its own start is a time of day, which may be set back
            seen, since = entry, time.monotonic()
        if time.monotonic() - since >= _PATIENCE_SECONDS:
            told = entry
            doing = _DESCRIPTIONS.get((entry.processor_id, entry.phase), f"waiting for {entry.processor_id}")
            tell(f"(still {doing}; Ctrl-C stops)")
