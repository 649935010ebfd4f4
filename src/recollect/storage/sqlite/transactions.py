"""Running transactions on SQLite, and sharing commits between concurrent writers.

A durable commit waits for the disk. A lone write does all of its work at once, on the event loop's own
thread, because handing it over costs as much as the wait on a fast disk. Writes that come together run
there too, in short slices, but share one commit, which a thread waits for while the loop prepares the
next ones. Long jobs, and whatever must wait for another process, go to the thread as a whole. A job
that fails is undone by a savepoint and does not fail the others. Those that wait for another process wait
together: a file that was busy for too long has failed all of them.
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
from recollect.storage.sqlite.faults import translate

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LARGEST_BATCH = 32
# Small steps, so that whatever else the event loop has to do comes in between.
_SETTLED_AT_ONCE = 4
_SLICE_SECONDS = 0.0002
_QUIET_SECONDS = 0.05  # after writes that came together, others are waited for
_SLOW_COMMIT_SECONDS = 0.002  # from here on a lone write does not wait for the disk on the loop's thread
_LATER_SECONDS = 2.0  # what a write still waits for a file that others have waited for in vain
_CHECKPOINT_PAGES = 1000  # a log that is used again and again is quicker than one that grows


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
    """Run a transaction that reads one state of the database.

    Most have a single statement, which needs no transaction around it; the others are begun again in one.
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
        if connection.in_transaction:  # an error of the disk has ended it already
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
    """A write that waits for its outcome."""

    work: Work[Any]
    future: asyncio.Future[Any]
    heavy: bool
    asked_at: float


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
            connection.set_wal_hook(self._note_log)

    async def write(self, work: Work[T], *, heavy: bool) -> T:
        """Run a transaction and return its value once it is durable.

        Cancelled before it has begun it leaves nothing; cancelled later it is committed all the same.
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
        """Write what is pending, then end the thread."""
        await self._idle.wait()
        await self._thread.close()

    def _is_alone(self) -> bool:
        """Whether nobody else is likely to write in this tick, so that there is nothing to wait for."""
        first = not self._written_in_tick
        if first:
            self._written_in_tick = True
            self._loop.call_soon(self._end_tick)
        quiet = self._loop.time() - self._crowded_at > _QUIET_SECONDS
        return first and quiet and not self._flush_is_due and not self._connection_is_taken

    def _end_tick(self) -> None:
        self._written_in_tick = False

    def _schedule(self) -> None:
        # Not at once: what the other tasks of this tick write is to join the same batch.
        if not self._flush_is_due and not self._connection_is_taken:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._connection_is_taken = True
        jobs = [job for job in self._pending[:_LARGEST_BATCH] if not job.future.cancelled()]
        del self._pending[:_LARGEST_BATCH]
        if len(jobs) > 1:
            self._crowded_at = self._loop.time()
        if not jobs:
            self._next()
        elif any(job.heavy for job in jobs) and not self._in_memory:
            self._hand_over(jobs)
        else:
            self._run_here(jobs)

    def _run_here(self, jobs: list[Job]) -> None:
        try:
            begin_writing(self._connection, seconds=0)
        except apsw.Error:  # mostly: another process is writing, and the thread can wait for it
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
        except apsw.Error:  # SQLite has undone the whole transaction
            self._hand_over(jobs)
            return
        if len(outcomes) < len(jobs):
            self._loop.call_soon(self._run_slice, jobs, outcomes)
        elif self._may_commit_here(jobs):
            self._finish(jobs, self._commit(jobs, outcomes))
        else:
            self._thread.post(partial(self._serve, jobs, outcomes))

    def _may_commit_here(self, jobs: list[Job]) -> bool:
        return self._in_memory or (len(jobs) == 1 and self._commit_seconds < _SLOW_COMMIT_SECONDS)

    def _finish(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        self._settle(jobs, outcomes)
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._thread.post(self._tidy)
        else:
            self._next()

    def _next(self) -> None:
        self._connection_is_taken = False
        if self._pending:
            self._schedule()
        else:
            self._idle.set()

    def _settle(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        if len(jobs) > _SETTLED_AT_ONCE:
            self._loop.call_soon(self._settle, jobs[_SETTLED_AT_ONCE:], outcomes[_SETTLED_AT_ONCE:])
        for job, outcome in zip(jobs[:_SETTLED_AT_ONCE], outcomes, strict=False):
            if job.future.cancelled():
                continue
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)

    def _hand_over(self, jobs: list[Job]) -> None:
        self._thread.post(partial(self._serve, jobs, None))

    def _serve(self, jobs: list[Job], outcomes: list[Outcome] | None) -> None:
        """Commit jobs that have run, or run them first; this and what follows happens in the thread."""
        done = self._run_batch(jobs) if outcomes is None else self._commit(jobs, outcomes)
        call_in_loop(self._loop, self._settle, jobs, done)
        self._tidy()

    def _tidy(self) -> None:
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._checkpoint()
        call_in_loop(self._loop, self._next)

    def _checkpoint(self) -> None:
        self._log_pages = 0
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the log keeps what was not copied, and the next try takes it along
            _log.warning("could not copy the log of %s into the database: %s", self._place, error)

    def _note_log(self, _connection: Database, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _run_batch(self, jobs: list[Job]) -> list[Outcome]:
        """Run jobs in one transaction, after waiting for other processes."""
        try:
            self._roll_back()
            self._wait_for_others(jobs)
        except apsw.Error as error:  # none of them has run, and one by itself would fare no better
            return [Outcome(error=translate(error, self._place)) for _ in jobs]
        try:
            outcomes = [self._run_job(job, alone=len(jobs) == 1) for job in jobs]
        except apsw.Error as error:
            return self._run_apart(jobs, error)
        return self._commit(jobs, outcomes)

    def _wait_for_others(self, jobs: list[Job]) -> None:
        """Begin a transaction when other processes let it; the wait counts from when the file became busy."""
        now = time.monotonic()
        if now - self._busy_until > BUSY_SECONDS:  # it was free since, or nobody has looked for long
            self._busy_since = now
        deadline = max(self._busy_since + BUSY_SECONDS, jobs[-1].asked_at + _LATER_SECONDS)
        try:
            begin_writing(self._connection, deadline - now, partial(_is_wanted, jobs))
            self._busy_until = float("-inf")
        except apsw.BusyError:
            self._busy_until = time.monotonic()
            raise

    def _commit(self, jobs: list[Job], outcomes: list[Outcome]) -> list[Outcome]:
        if not self._connection.in_transaction:  # a lone job has failed
            return outcomes
        started = time.perf_counter()
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            return self._run_apart(jobs, error)
        self._commit_seconds += 0.2 * (time.perf_counter() - started - self._commit_seconds)
        return outcomes

    def _run_apart(self, jobs: list[Job], error: apsw.Error) -> list[Outcome]:
        """Give each job of a failed batch a transaction of its own; a lone one has failed."""
        self._roll_back()
        if len(jobs) == 1:
            return [Outcome(error=translate(error, self._place))]
        return [outcome for job in jobs for outcome in self._run_batch([job])]

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _run_job(self, job: Job, *, alone: bool) -> Outcome:
        """Run a job within the open transaction; one that fails leaves nothing behind in it."""
        if job.future.cancelled():
            return Outcome()
        if not alone:
            self._connection.execute("SAVEPOINT job")
        outcome = self._outcome_of(job)
        if outcome.error is not None:
            self._connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
        if not alone:
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


def _is_wanted(jobs: list[Job]) -> bool:
    """Whether anybody still waits for one of the jobs."""
    return not all(job.future.cancelled() for job in jobs)
