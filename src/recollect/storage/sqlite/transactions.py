"""Running transactions on SQLite, and sharing commits between concurrent writers.

A durable commit waits for the disk. A lone write does so at once, on the event loop's own thread,
because handing it over costs as much as the wait on a fast disk. Writes that come together are
handed to a thread as one batch, which shares a single commit; a failed one is undone by a
savepoint and does not fail the others. Should the disk be slow, lone writes go to the thread too.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, LiteralString, TypeVar

import apsw

from recollect.storage.engine import Statement, Work
from recollect.storage.sqlite.connection import BUSY_SECONDS, Database, begin_writing
from recollect.storage.sqlite.faults import translate
from recollect.storage.worker import Worker

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LARGEST_BATCH = 256
_CHECKPOINT_PAGES = 4000  # 16 MB of WAL
_LONGEST_INLINE_SECONDS = 0.002  # what the event loop may be held up by one commit


def run_work(connection: Database, sql: dict[str, LiteralString], work: Work[T]) -> T:
    """Run the body of a transaction on a connection, without beginning or ending it."""
    body = work()
    try:
        step = next(body)
        while True:
            step = body.send([_execute(connection, sql, statement) for statement in step.statements])
    except StopIteration as done:
        return done.value


def read_work(connection: Database, sql: dict[str, LiteralString], work: Work[T]) -> T:
    """Run a transaction that reads one state of the database."""
    connection.execute("BEGIN")
    try:
        return run_work(connection, sql, work)
    finally:
        connection.execute("COMMIT")


def _execute(connection: Database, sql: dict[str, LiteralString], statement: Statement) -> list[Any]:
    text, params = sql[statement.name], statement.params
    if isinstance(params, Sequence):
        connection.executemany(text, params)
        return []
    return connection.execute(text, params).fetchall()


@dataclass(slots=True)
class Job:
    """A write that waits for its outcome."""

    work: Work[Any]
    future: asyncio.Future[Any]
    heavy: bool


@dataclass(slots=True)
class Outcome:
    """What became of a job: its value, or its error."""

    value: object = None
    error: Exception | None = None


class Writer:
    """The one connection of a process that writes to a file."""

    def __init__(self, connection: Database, sql: dict[str, LiteralString], place: str) -> None:
        """Take over a connection, in the event loop that will write."""
        self._connection = connection
        self._sql = sql
        self._place = place
        self._in_memory = not connection.filename
        self._loop = asyncio.get_running_loop()
        self._pending: list[Job] = []
        self._flush_is_due = False
        self._thread_is_busy = False
        self._commit_seconds = 0.0
        self._wal_pages = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = Worker("recollect-writer")
        if not self._in_memory:
            connection.set_wal_hook(self._note_wal)

    async def write(self, work: Work[T], *, heavy: bool) -> T:
        """Run a transaction and return its value once it is durable.

        Cancelled before it has begun it leaves nothing; cancelled later it is committed all the same.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending.append(Job(work, future, heavy))
        self._idle.clear()
        self._schedule()
        return await future

    async def close(self) -> None:
        """Write what is pending, then end the thread."""
        await self._idle.wait()
        await self._thread.close()

    def _schedule(self) -> None:
        # Not at once: what the other tasks of this tick write is to join the same batch.
        if not self._flush_is_due and not self._thread_is_busy:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        jobs = [job for job in self._pending[:_LARGEST_BATCH] if not job.future.cancelled()]
        del self._pending[:_LARGEST_BATCH]
        if self._in_memory or (len(jobs) == 1 and self._may_run_here(jobs[0])):
            self._write_here(jobs)
        elif jobs:
            self._hand_over(jobs)
        else:
            self._next()

    def _may_run_here(self, job: Job) -> bool:
        return not job.heavy and self._commit_seconds < _LONGEST_INLINE_SECONDS

    def _write_here(self, jobs: list[Job]) -> None:
        try:
            outcomes = self._run_batch(jobs, seconds=0)
        except apsw.BusyError:  # another process is writing: wait for it in the thread
            self._hand_over(jobs)
            return
        self._settle(jobs, outcomes)
        if self._wal_pages >= _CHECKPOINT_PAGES:
            self._hand_over([])
        else:
            self._next()

    def _hand_over(self, jobs: list[Job]) -> None:
        self._thread_is_busy = True
        self._thread.post(partial(self._serve, jobs))

    def _settle(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        for job, outcome in zip(jobs, outcomes, strict=True):
            if job.future.cancelled():
                continue
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)

    def _next(self) -> None:
        self._thread_is_busy = False
        if self._pending:
            self._schedule()
        else:
            self._idle.set()

    def _serve(self, jobs: list[Job]) -> None:
        outcomes = self._run_waiting(jobs)
        self._thread.call_back(self._settle, jobs, outcomes)
        if self._wal_pages >= _CHECKPOINT_PAGES:
            self._checkpoint()
        self._thread.call_back(self._next)

    def _checkpoint(self) -> None:
        self._wal_pages = 0
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the log keeps what was not copied, and the next try takes it along
            _log.warning("could not copy the log of %s into the database: %s", self._place, error)

    def _note_wal(self, _connection: Database, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _run_waiting(self, jobs: list[Job]) -> list[Outcome]:
        try:
            return self._run_batch(jobs, seconds=BUSY_SECONDS)
        except apsw.BusyError as error:
            return [Outcome(error=translate(error, self._place)) for _ in jobs]

    def _run_batch(self, jobs: list[Job], *, seconds: float) -> list[Outcome]:
        """Run jobs in one transaction; where that fails as a whole, each in one of its own.

        Only the wait for other writers raises; every other fault is the outcome of a job.
        """
        if not jobs:
            return []
        try:
            begin_writing(self._connection, seconds)
            started = time.perf_counter()
            outcomes = [self._run_job(job) for job in jobs]
            self._connection.execute("COMMIT")
        except apsw.BusyError:
            raise
        except apsw.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if len(jobs) == 1:
                return [Outcome(error=translate(error, self._place))]
            return [outcome for job in jobs for outcome in self._run_waiting([job])]
        if len(jobs) == 1 and not jobs[0].heavy:
            self._commit_seconds += 0.2 * (time.perf_counter() - started - self._commit_seconds)
        return outcomes

    def _run_job(self, job: Job) -> Outcome:
        if job.future.cancelled():
            return Outcome()
        self._connection.execute("SAVEPOINT job")
        outcome = self._outcome_of(job)
        if outcome.error is not None:
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
        return outcome

    def _outcome_of(self, job: Job) -> Outcome:
        try:
            return Outcome(run_work(self._connection, self._sql, job.work))
        except apsw.Error as error:
            if not self._connection.in_transaction:  # SQLite has undone the whole batch
                raise
            return Outcome(error=translate(error, self._place))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's to see
            return Outcome(error=error)
