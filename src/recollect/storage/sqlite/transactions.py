"""Running transactions on SQLite, and sharing commits between concurrent writers.

A durable commit waits for the disk. There are three cases:

- A single write runs and commits on the event loop's own thread: on a fast disk, a hand-over to another
  thread would cost as much as the commit.
- Concurrent writes run there too, in short slices, but share one commit in the writer's thread. Meanwhile
  the event loop goes on.
- Heavy jobs, and jobs that must wait for another process, run in the writer's thread as a whole.

Each job of a batch has a savepoint, so that one that fails does not fail the others. Jobs that wait for
another process wait together: when the file was busy for too long, all of them fail.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, LiteralString, TypeVar

import apsw

from recollect.concurrency.threads import ThreadPool, call_in_loop
from recollect.errors import StorageCorruptError
from recollect.storage.engine import Statement, Work
from recollect.storage.sqlite.connection import BUSY_SECONDS, Database, begin_writing
from recollect.storage.sqlite.faults import translate_error

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_BATCH = 32
# The next two are small, so that other tasks of the event loop run in between.
_SETTLE_BATCH = 4
_SLICE_SECONDS = 0.0002
_QUIET_SECONDS = 0.05  # for this long after concurrent writes, a write waits for others to join it
_SLOW_COMMIT_SECONDS = 0.002  # with slower commits, a single write does not commit on the loop's thread
_MIN_WAIT_SECONDS = 2.0  # how long a write waits at least, even for a file that others gave up on
_CHECKPOINT_PAGES = 1000  # reusing a short log is faster than letting it grow


def run_work(connection: Database, sql: dict[str, LiteralString], work: Work[T]) -> T:
    """Run the body of a transaction on a connection, without BEGIN and COMMIT."""
    body = work()
    try:
        step = next(body)
        while True:
            step = body.send([_execute(connection, sql, statement) for statement in step.statements])
    except StopIteration as done:
        return done.value


def read_work(connection: Database, sql: dict[str, LiteralString], work: Work[T]) -> T:
    """Run a transaction that reads one snapshot of the database.

    Most have a single statement, which needs no transaction around it; longer ones restart in one.
    """
    body = work()
    step = next(body)
    if len(step.statements) == 1:
        try:
            body.send([_execute(connection, sql, step.statements[0])])
        except StopIteration as done:
            return done.value
    connection.execute("BEGIN")
    try:
        return run_work(connection, sql, work)
    finally:
        if connection.in_transaction:  # a disk error has ended it already
            connection.execute("COMMIT")


def _execute(connection: Database, sql: dict[str, LiteralString], statement: Statement) -> list[Any]:
    text, params = sql[statement.name], statement.params
    if isinstance(params, list):
        connection.executemany(text, params)
        return []
    try:
        return connection.execute(text, params).fetchall()
    except UnicodeDecodeError as error:
        raise StorageCorruptError("stored text is damaged; restore the database from a backup") from error


@dataclass(slots=True)
class Job:
    """A write, and the future that its caller awaits."""

    work: Work[Any]
    future: asyncio.Future[Any]
    heavy: bool
    asked_at: float


@dataclass(slots=True)
class Outcome:
    """The result of a job: its value, or its error."""

    value: object = None
    error: Exception | None = None


class Writer:
    """The only connection of a store that writes."""

    def __init__(self, connection: Database, sql: dict[str, LiteralString], place: str) -> None:
        self._connection = connection
        self._sql = sql
        self._place = place
        self._in_memory = not connection.filename
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPool(1, "recollect-writer", blocks_fork=True)
        self._pending: list[Job] = []
        self._flush_is_due = False
        self._connection_is_taken = False
        self._written_in_tick = False
        self._crowded_at = float("-inf")
        self._idle = asyncio.Event()
        self._idle.set()
        self._commit_seconds = 0.0
        self._busy_since = self._busy_until = float("-inf")
        self._log_pages = 0
        if not self._in_memory:
            connection.set_wal_hook(self._record_log_size)

    async def write(self, work: Work[T], *, heavy: bool) -> T:
        """Run a transaction and return its value once it is durable.

        Cancelled before it starts, it writes nothing; cancelled later, it commits all the same.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._idle.clear()
        self._pending.append(Job(work, future, heavy, time.monotonic()))
        if self._is_alone():
            self._flush()
        else:
            self._schedule()
        return await future

    async def close(self) -> None:
        """Write the pending jobs, then end the thread."""
        await self._idle.wait()
        await self._thread.close()

    def _is_alone(self) -> bool:
        """Whether no other write is likely in this tick, so that the first one need not wait for it."""
        first = not self._written_in_tick
        if first:
            self._written_in_tick = True
            self._loop.call_soon(self._end_tick)
        quiet = self._loop.time() - self._crowded_at > _QUIET_SECONDS
        return first and quiet and not self._flush_is_due and not self._connection_is_taken

    def _end_tick(self) -> None:
        self._written_in_tick = False

    def _schedule(self) -> None:
        # Not at once: writes of other tasks in this tick should join the same batch.
        if not self._flush_is_due and not self._connection_is_taken:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._connection_is_taken = True
        jobs = [job for job in self._pending[:_MAX_BATCH] if not job.future.cancelled()]
        del self._pending[:_MAX_BATCH]
        if len(jobs) > 1:
            self._crowded_at = self._loop.time()
        if not jobs:
            self._start_next()
        elif any(job.heavy for job in jobs) and not self._in_memory:
            self._hand_over(jobs)
        else:
            self._run_here(jobs)

    def _run_here(self, jobs: list[Job]) -> None:
        try:
            begin_writing(self._connection, seconds=0)
        except apsw.Error:  # usually another process is writing, and the thread can wait for it
            self._hand_over(jobs)
        else:
            self._busy_until = float("-inf")
            self._run_slice(jobs, [])

    def _run_slice(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        deadline = time.perf_counter() + _SLICE_SECONDS
        try:
            for job in jobs[len(outcomes) :]:
                outcomes.append(self._run_job(job, alone=len(jobs) == 1))
                if time.perf_counter() > deadline and not self._in_memory:
                    break
        except apsw.Error:  # SQLite has rolled back the whole transaction
            self._hand_over(jobs)
            return
        if len(outcomes) < len(jobs):
            self._loop.call_soon(self._run_slice, jobs, outcomes)
        elif self._may_commit_here(jobs):
            self._finish(jobs, self._commit(jobs, outcomes))
        else:
            self._thread.post(partial(self._finish_in_thread, jobs, outcomes))

    def _may_commit_here(self, jobs: list[Job]) -> bool:
        return self._in_memory or (len(jobs) == 1 and self._commit_seconds < _SLOW_COMMIT_SECONDS)

    def _finish(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        self._settle(jobs, outcomes)
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._thread.post(self._checkpoint_if_due)
        else:
            self._start_next()

    def _start_next(self) -> None:
        self._connection_is_taken = False
        if self._pending:
            self._schedule()
        else:
            self._idle.set()

    def _settle(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        if len(jobs) > _SETTLE_BATCH:
            self._loop.call_soon(self._settle, jobs[_SETTLE_BATCH:], outcomes[_SETTLE_BATCH:])
        for job, outcome in zip(jobs[:_SETTLE_BATCH], outcomes, strict=False):
            if job.future.cancelled():
                continue
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)

    def _hand_over(self, jobs: list[Job]) -> None:
        self._thread.post(partial(self._finish_in_thread, jobs, None))

    def _finish_in_thread(self, jobs: list[Job], outcomes: list[Outcome] | None) -> None:
        """Commit jobs that have run, or run them first; this and all it calls run in the writer's thread."""
        done = self._run_batch(jobs) if outcomes is None else self._commit(jobs, outcomes)
        call_in_loop(self._loop, self._settle, jobs, done)
        self._checkpoint_if_due()

    def _checkpoint_if_due(self) -> None:
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._checkpoint()
        call_in_loop(self._loop, self._start_next)

    def _checkpoint(self) -> None:
        self._log_pages = 0
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the log keeps the rest, and the next checkpoint copies it
            _log.warning("could not copy the log of %s into the database: %s", self._place, error)

    def _record_log_size(self, _connection: Database, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _run_batch(self, jobs: list[Job]) -> list[Outcome]:
        """Run jobs in one transaction, after waiting for other processes."""
        try:
            self._roll_back()
            self._wait_for_others(jobs)
        except apsw.Error as error:  # none of them has run, and each would fail by itself too
            return [Outcome(error=translate_error(error, self._place)) for _ in jobs]
        try:
            outcomes = [self._run_job(job, alone=len(jobs) == 1) for job in jobs]
        except apsw.Error as error:
            return self._run_separately(jobs, error)
        return self._commit(jobs, outcomes)

    def _wait_for_others(self, jobs: list[Job]) -> None:
        """Begin a transaction, waiting for other processes; the time counts since the file became busy."""
        now = time.monotonic()
        if now - self._busy_until > BUSY_SECONDS:  # it was free since, or nobody has tried for long
            self._busy_since = now
        deadline = max(self._busy_since + BUSY_SECONDS, jobs[-1].asked_at + _MIN_WAIT_SECONDS)
        try:
            begin_writing(self._connection, deadline - now, partial(_is_wanted, jobs))
            self._busy_until = float("-inf")
        except apsw.BusyError:
            self._busy_until = time.monotonic()
            raise

    def _commit(self, jobs: list[Job], outcomes: list[Outcome]) -> list[Outcome]:
        if not self._connection.in_transaction:  # a single job has failed
            return outcomes
        started = time.perf_counter()
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            return self._run_separately(jobs, error)
        self._commit_seconds += 0.2 * (time.perf_counter() - started - self._commit_seconds)
        return outcomes

    def _run_separately(self, jobs: list[Job], error: apsw.Error) -> list[Outcome]:
        """Give each job of a failed batch a transaction of its own; a single job has failed."""
        self._roll_back()
        if len(jobs) == 1:
            return [Outcome(error=translate_error(error, self._place))]
        return [outcome for job in jobs for outcome in self._run_batch([job])]

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _run_job(self, job: Job, *, alone: bool) -> Outcome:
        """Run a job within the open transaction; roll back its own changes if it fails."""
        if job.future.cancelled():
            return Outcome()
        if not alone:
            self._connection.execute("SAVEPOINT job")
        outcome = self._execute_job(job)
        if outcome.error is not None:
            self._connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
        if not alone:
            self._connection.execute("RELEASE job")
        return outcome

    def _execute_job(self, job: Job) -> Outcome:
        try:
            return Outcome(run_work(self._connection, self._sql, job.work))
        except apsw.Error as error:
            if not self._connection.in_transaction:  # SQLite has rolled back the whole batch
                raise
            return Outcome(error=translate_error(error, self._place))
        except Exception as error:  # noqa: BLE001 - it is raised in the job's caller
            return Outcome(error=error)


def _is_wanted(jobs: list[Job]) -> bool:
    return not all(job.future.cancelled() for job in jobs)
