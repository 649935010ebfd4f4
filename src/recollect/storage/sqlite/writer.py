"""The writer of a SQLite file: it shares commits between concurrent writes.

A durable commit waits for the disk. There are three cases:

- A single write runs and commits on the event loop's own thread: on a fast disk, a hand-over to another
  thread would cost as much as the commit.
- Concurrent writes run there too, in short slices, but share one commit in the writer's thread. Meanwhile
  the event loop goes on.
- Heavy jobs, and jobs that must wait for another process, run in the writer's thread as a whole.

A job of a batch that fails does not fail the others: they are run again without what it changed. Jobs that
wait for another process wait together: when the file was busy for too long, all of them fail.

A signal handler may raise anywhere in the event loop's thread, for Ctrl-C or a time limit. The thread then
finishes the batch: it runs jobs that were not committed again, and tells the callers of the others. A call
that the loop was about to make is lost then; so what must not be lost is scheduled twice, and the second
call finds nothing left to do.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import apsw

from recollect.concurrency.threads import ThreadPool, ThreadStartError, call_in_loop
from recollect.errors import StorageUnavailableError
from recollect.storage.engine import Work
from recollect.storage.sqlite.connection import Database, begin_writing
from recollect.storage.sqlite.faults import translate_error
from recollect.storage.sqlite.transactions import load_prepared, run_work

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_BATCH = 32
_SLICE_SECONDS = 0.001  # short, so that other tasks of the event loop run in between
_TICK_SECONDS = 0.002  # for this long one task may write again and again before others run
_QUIET_SECONDS = 0.05  # for this long after concurrent writes, a write waits for others to join it
_SLOW_COMMIT_SECONDS = 0.002  # with slower commits, a single write does not commit on the loop's thread
_MIN_WAIT_SECONDS = 2.0  # how long a write waits at least, even for a file that others gave up on
_CHECKPOINT_PAGES = 1000  # reusing a short log is faster than letting it grow


class _NotWrittenError(Exception):
    """A single write has changed nothing; it must be tried in the thread."""


class _HalfDoneError(Exception):
    """A job of a batch has failed after it has changed something."""


@dataclass(slots=True)
class Job:
    """A write, and the future that its caller awaits."""

    run: Callable[[], Any]
    future: asyncio.Future[Any]
    heavy: bool
    asked_at: float
    is_alone: bool = False  # has the connection to itself, outside of transactions


@dataclass(slots=True)
class Outcome:
    """The result of a job: its value, or its error."""

    value: object = None
    error: BaseException | None = None


@dataclass(slots=True)
class Batch:
    """Jobs that share a transaction, and the outcomes of those that have run in it."""

    jobs: list[Job]
    outcomes: list[Outcome] = field(default_factory=list)
    is_careful: bool = False  # each job has a savepoint
    is_posted: bool = False  # the thread does what is left
    is_finished: bool = False

    @property
    def has_run(self) -> bool:
        """Whether all jobs have run, so that only the commit is missing."""
        return len(self.outcomes) == len(self.jobs)


class Writer:
    """The only connection of a store that writes."""

    def __init__(
        self,
        connection: Database,
        place: str,
        busy_seconds: float,
        fork_lock: AbstractContextManager[object],
    ) -> None:
        self._connection = connection
        self._fork_lock = fork_lock  # held while the event loop's thread is inside SQLite
        self._sql = load_prepared()
        self._place = place
        self._busy_seconds = busy_seconds
        self._in_memory = not connection.filename
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPool(1, "recollect-writer", blocks_fork=True)
        self._pending: list[Job] = []
        self._flush_is_due = False
        self._batch: Batch | None = None  # which has the connection
        self._writing_task: asyncio.Task[Any] | None = None  # the first one of this tick
        self._tick_started = 0.0
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
        now = time.monotonic()
        if self._writing_task is not None and now - self._tick_started > _TICK_SECONDS:
            await asyncio.sleep(0)  # a task that writes again and again lets the event loop go on
            self._end_tick()
        if not heavy and self._is_alone(now):
            try:
                with self._fork_lock:
                    return self._write_here(work)
            except _NotWrittenError:  # another process is writing, or the disk failed: the thread tries again
                pass
        future: asyncio.Future[T] = self._loop.create_future()
        self._idle.clear()
        run = partial(run_work, self._connection, self._sql, work)
        self._pending.append(Job(run, future, heavy, now))
        self._schedule()
        return await future

    async def run_alone(self, call: Callable[[Database], T]) -> T:
        """Run a call in the thread, with the connection to itself and no transaction open."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._idle.clear()
        run = partial(call, self._connection)
        self._pending.append(Job(run, future, heavy=True, asked_at=time.monotonic(), is_alone=True))
        self._schedule()
        return await future

    async def close(self) -> None:
        """Write the pending jobs, then end the thread."""
        self._schedule()  # an interrupt may have kept a job from being scheduled
        await self._idle.wait()
        await self._thread.close()

    def _is_alone(self, now: float) -> bool:
        """Whether no other task is likely to write in this tick, so that this write need not wait for it."""
        task = asyncio.current_task()
        if self._writing_task is None:
            self._loop.call_soon(self._end_tick)
            self._writing_task, self._tick_started = task, now
        elif self._writing_task is not task:
            return False
        is_quiet = now - self._crowded_at > _QUIET_SECONDS
        is_free = not self._flush_is_due and self._batch is None
        return is_quiet and is_free and (self._in_memory or self._commit_seconds < _SLOW_COMMIT_SECONDS)

    def _end_tick(self) -> None:
        self._writing_task = None

    def _write_here(self, work: Work[T]) -> T:
        """Run and commit a single write on the event loop's thread."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._busy_until = float("-inf")
            value = run_work(connection, self._sql, work)
            started = time.perf_counter()
            connection.execute("COMMIT")
            self._note_commit(started)
        except apsw.Error as error:
            if not connection.in_transaction or isinstance(error, apsw.BusyError):
                raise _NotWrittenError from error
            raise translate_error(error, self._place) from error
        finally:
            self._roll_back()
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._idle.clear()
            self._batch = batch = Batch([])
            try:
                self._post(batch)
            except BaseException:  # raised by a signal handler
                self._post(batch)
                raise
        return value

    def _note_commit(self, started: float) -> None:
        self._commit_seconds += 0.2 * (time.perf_counter() - started - self._commit_seconds)

    def _schedule(self) -> None:
        # Not at once: writes of other tasks in this tick should join the same batch.
        if not self._flush_is_due and self._batch is None:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        self._call_soon(self._flush)
        self._flush_is_due = True

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)
        self._loop.call_soon(call)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._batch is not None:
            return
        if not self._pending:
            self._idle.set()
            return
        size = self._count_next()
        self._batch = batch = Batch(self._pending[:size])
        try:
            del self._pending[:size]
            batch.jobs = [job for job in batch.jobs if not job.future.cancelled()]
            with self._fork_lock:
                self._start(batch)
        except BaseException:  # raised by a signal handler
            self._post(batch)
            raise

    def _count_next(self) -> int:
        """Return how many of the pending jobs share the next batch."""
        for place, job in enumerate(self._pending[:_MAX_BATCH]):
            if job.is_alone:
                return max(place, 1)
        return _MAX_BATCH

    def _start(self, batch: Batch) -> None:
        if len(batch.jobs) > 1:
            self._crowded_at = time.monotonic()
        if not batch.jobs:
            self._start_next(batch)
        elif any(job.heavy for job in batch.jobs) and not self._in_memory:
            self._post(batch)
        else:
            self._run_here(batch)

    def _run_here(self, batch: Batch) -> None:
        try:
            self._roll_back()
            begin_writing(self._connection, seconds=0)
        except apsw.Error:  # usually another process is writing, and the thread can wait for it
            self._post(batch)
        else:
            self._busy_until = float("-inf")
            self._run_slice(batch)

    def _continue(self, batch: Batch, done: int) -> None:
        if batch.is_posted or self._batch is not batch or len(batch.outcomes) != done:
            return
        try:
            with self._fork_lock:
                self._run_slice(batch)
        except BaseException:  # raised by a signal handler
            self._post(batch)
            raise

    def _run_slice(self, batch: Batch) -> None:
        deadline = time.perf_counter() + _SLICE_SECONDS
        try:
            for job in batch.jobs[len(batch.outcomes) :]:
                batch.outcomes.append(self._run_job(job, batch))
                if time.perf_counter() > deadline and not self._in_memory:
                    break
        except _HalfDoneError:
            batch.outcomes.clear()
            batch.is_careful = True
            self._run_here(batch)
            return
        except apsw.Error:  # SQLite has rolled back the whole transaction
            batch.outcomes.clear()
            self._post(batch)
            return
        if not batch.has_run:
            self._call_soon(partial(self._continue, batch, len(batch.outcomes)))
        elif self._may_commit_here(batch):
            self._commit(batch)
            self._finish(batch)
        else:
            self._post(batch)

    def _may_commit_here(self, batch: Batch) -> bool:
        return self._in_memory or (len(batch.jobs) == 1 and self._commit_seconds < _SLOW_COMMIT_SECONDS)

    def _finish(self, batch: Batch) -> None:
        self._settle(batch)
        if self._log_pages >= _CHECKPOINT_PAGES:
            self._post(batch)
        else:
            self._start_next(batch)

    def _release(self, batch: Batch) -> None:
        """Tell the callers of a batch that the thread has finished, and let the next one begin."""
        self._settle(batch)
        self._start_next(batch)

    def _start_next(self, batch: Batch) -> None:
        if self._batch is not batch:  # it was finished already, here or in the thread
            return
        if self._pending:
            self._schedule_flush()
        else:
            self._idle.set()
        self._batch = None

    def _settle(self, batch: Batch) -> None:
        for job, outcome in zip(batch.jobs, batch.outcomes, strict=True):
            if job.future.done():
                continue
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)

    def _post(self, batch: Batch) -> None:
        """Have the thread do what is left of a batch; a database in memory has one connection for all."""
        batch.is_posted = True
        task = partial(self._finish_in_thread, batch)
        if self._in_memory:
            self._call_soon(task)
            return
        try:
            self._thread.post(task)
        except ThreadStartError as error:
            self._fail(batch, error)

    def _fail(self, batch: Batch, error: ThreadStartError) -> None:
        """Fail the jobs of a batch for which there is no thread, and let later ones try again."""
        self._roll_back()
        failure = StorageUnavailableError(f"{self._place}: no thread could be started ({error}); try again")
        batch.outcomes = [Outcome(error=failure) for _ in batch.jobs]
        batch.is_finished = True
        self._release(batch)

    def _finish_in_thread(self, batch: Batch) -> None:
        """Run jobs that have not run, commit what is not committed, and tell the callers.

        This and all it calls run in the writer's thread.
        """
        if batch.is_finished or self._batch is not batch:  # posted twice
            return
        if not batch.has_run:
            self._run_batch(batch)
        elif self._connection.in_transaction:
            self._commit(batch)
        batch.is_finished = True
        if self._log_pages >= _CHECKPOINT_PAGES:
            call_in_loop(self._loop, self._settle, batch)
            self._checkpoint()
        call_in_loop(self._loop, self._release, batch)
        call_in_loop(self._loop, self._release, batch)

    def _checkpoint(self) -> None:
        self._log_pages = 0
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the log keeps the rest, and the next checkpoint copies it
            _log.warning("could not copy the log of %s into the database: %s", self._place, error)

    def _record_log_size(self, _connection: Database, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _run_batch(self, batch: Batch) -> None:
        """Run jobs in one transaction, after waiting for other processes."""
        batch.outcomes.clear()
        batch.is_careful = True
        try:
            self._roll_back()
            if batch.jobs and batch.jobs[0].is_alone:
                batch.outcomes = [self._execute_job(job, batch) for job in batch.jobs]
                return
            self._wait_for_others(batch.jobs)
        except apsw.Error as error:  # none of them has run, and each would fail by itself too
            batch.outcomes = [Outcome(error=translate_error(error, self._place)) for _ in batch.jobs]
            return
        try:
            for job in batch.jobs:
                batch.outcomes.append(self._run_job(job, batch))
        except apsw.Error as error:
            self._run_separately(batch, error)
        else:
            self._commit(batch)

    def _wait_for_others(self, jobs: list[Job]) -> None:
        """Begin a transaction, waiting for other processes; the time counts since the file became busy."""
        now = time.monotonic()
        if now - self._busy_until > self._busy_seconds:  # it was free since, or nobody has tried for long
            self._busy_since = now
        deadline = max(
            self._busy_since + self._busy_seconds,
            jobs[-1].asked_at + min(_MIN_WAIT_SECONDS, self._busy_seconds),
        )
        try:
            begin_writing(self._connection, deadline - now, partial(_is_wanted, jobs))
            self._busy_until = float("-inf")
        except apsw.BusyError:
            self._busy_until = time.monotonic()
            raise

    def _commit(self, batch: Batch) -> None:
        started = time.perf_counter()
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._run_separately(batch, error)
        else:
            self._note_commit(started)

    def _run_separately(self, batch: Batch, error: apsw.Error) -> None:
        """Give each job of a failed batch a transaction of its own; a single job has failed."""
        batch.outcomes.clear()
        self._roll_back()
        if len(batch.jobs) == 1:
            batch.outcomes = [Outcome(error=translate_error(error, self._place))]
            return
        for job in batch.jobs:
            alone = Batch([job], is_posted=True)
            self._run_batch(alone)
            batch.outcomes += alone.outcomes

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _run_job(self, job: Job, batch: Batch) -> Outcome:
        """Run a job within the open transaction; if it fails, its own changes must go.

        Most jobs succeed, so a batch begins without savepoints. When a job fails after it has changed
        something, `_HalfDoneError` says that the batch must be run again, with savepoints.
        """
        if job.future.cancelled():
            return Outcome()
        before = self._connection.total_changes()
        if batch.is_careful:
            self._connection.execute("SAVEPOINT job")
        outcome = self._execute_job(job, batch)
        if outcome.error is not None and self._connection.total_changes() != before:
            if not batch.is_careful:
                raise _HalfDoneError
            self._connection.execute("ROLLBACK TO job")
        if batch.is_careful:
            self._connection.execute("RELEASE job")
        return outcome

    def _execute_job(self, job: Job, batch: Batch) -> Outcome:
        try:
            return Outcome(job.run())
        except apsw.Error as error:
            if not self._connection.in_transaction:  # SQLite has rolled back the whole batch
                raise
            return Outcome(error=translate_error(error, self._place))
        except Exception as error:  # noqa: BLE001 - it is raised in the job's caller
            return Outcome(error=error)
        except BaseException as error:
            if not batch.is_posted:  # a signal handler has raised it, or the job, which is run again
                raise
            return Outcome(error=error)


def _is_wanted(jobs: list[Job]) -> bool:
    return not all(job.future.cancelled() for job in jobs)
