"""A pool of threads for calls that would block the event loop: few, in order, and ended with the pool."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading

import pytest
from tests.support.waiting import GENEROUS, until, wait_until

from recollect.concurrency.threads import ThreadPool, call_in_loop

pytestmark = pytest.mark.anyio


def find_threads(name: str) -> list[threading.Thread]:
    """Return the running threads with a name."""
    return [thread for thread in threading.enumerate() if thread.name == name]


async def test_calls_and_tasks_run_in_order_in_one_thread_that_is_not_the_loops() -> None:
    """Whether or not a caller waits for them; no thread starts before it is needed."""
    pool, done = ThreadPool(1, "pool-order"), list[int]()
    assert not find_threads("pool-order")
    for number in range(10):
        pool.post(lambda number=number: done.append(number))
    threads = await asyncio.gather(
        *(pool.run(lambda n=n: (done.append(n), threading.current_thread())[1]) for n in range(10, 20))
    )
    assert done == [*range(20)]
    assert [thread.name for thread in {*threads}] == ["pool-order"]


async def test_no_more_threads_than_allowed_work_at_once() -> None:
    """Threads start when they are needed; the other calls wait."""
    pool, gate = ThreadPool(2, "pool-limit"), threading.Event()
    calls = [asyncio.create_task(pool.run(lambda: gate.wait(GENEROUS))) for _ in range(6)]
    await until(lambda: len(find_threads("pool-limit")) == 2)
    gate.set()
    assert await asyncio.gather(*calls) == [True] * 6
    assert len(find_threads("pool-limit")) == 2


def test_no_more_threads_than_allowed_start_when_several_loops_share_a_pool() -> None:
    """A pool belongs to no event loop."""
    pool, loops = ThreadPool(2, "pool-shared"), 4
    together = threading.Barrier(loops)

    async def call() -> list[int]:
        together.wait(GENEROUS)
        return await pool.map(lambda number: number * 2, range(50))

    threads = [threading.Thread(target=lambda: asyncio.run(call())) for _ in range(loops)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(find_threads("pool-shared")) == 2


async def test_call_never_runs_when_it_is_cancelled_before_a_thread_is_free() -> None:
    """A cancelled caller returns at once; a call that runs is finished."""
    pool, begun, gate, done = ThreadPool(1, "pool-cancel"), threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        begun.set()
        gate.wait(GENEROUS)
        done.append("first")

    first = asyncio.create_task(pool.run(slow))
    second = asyncio.create_task(pool.run(lambda: done.append("second")))
    await until(begun.is_set)
    for task in (first, second):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.set()
    await pool.run(lambda: done.append("third"))
    assert done == ["first", "third"]


async def test_result_is_dropped_when_its_caller_was_cancelled_meanwhile() -> None:
    """Neither the value nor the error of a cancelled call is reported anywhere."""
    pool, begun, gate = ThreadPool(1, "pool-late"), threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        gate.wait(GENEROUS)
        raise ValueError("no")

    failing = asyncio.create_task(pool.run(fail))
    await until(begun.is_set)
    failing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await failing
    gate.set()
    assert await pool.run(lambda: "fine") == "fine"


async def test_items_not_yet_started_are_dropped_when_one_fails() -> None:
    """The first error is raised unchanged."""
    pool, begun = ThreadPool(1, "pool-map"), list[int]()
    gate = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        if number == 2:
            gate.wait(GENEROUS)  # a running call is not interrupted
        return number

    assert await pool.map(lambda number: number * 2, range(5)) == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match="no"):
        await pool.map(work, range(9))
    gate.set()
    await pool.run(lambda: None)
    assert begun in ([0, 1], [0, 1, 2])


async def test_error_belongs_to_the_caller_and_the_thread_goes_on() -> None:
    """The same thread runs the next call."""
    pool = ThreadPool(1, "pool-error")
    first = await pool.run(threading.current_thread)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)
    assert await pool.run(threading.current_thread) is first


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError("x"), SystemExit("x")])
async def test_error_that_a_future_cannot_carry_is_wrapped(error: BaseException) -> None:
    """The caller neither hangs nor looks cancelled."""

    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"{type(error).__name__} x") as caught:
        await ThreadPool(1, "pool-odd-error").run(fail)
    assert caught.value.__cause__ is error


async def test_call_has_the_context_of_its_caller() -> None:
    """The thread sees the context variables of the task."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert await ThreadPool(1, "pool-context").run(variable.get) == "mine"


async def test_closing_finishes_posted_tasks_and_ends_the_thread() -> None:
    """An unused pool has nothing to end, and a closed pool can be used again."""
    pool, done = ThreadPool(1, "pool-close"), list[int]()
    await pool.close()
    for number in range(100):
        pool.post(lambda number=number: done.append(number))
    await pool.close()
    assert done == [*range(100)]
    assert not find_threads("pool-close")
    assert await pool.run(lambda: "again") == "again"
    await pool.close()
    assert not find_threads("pool-close")


def test_threads_end_when_the_pool_is_garbage_collected() -> None:
    """The threads of a pool that nobody closed end with it."""

    async def forget() -> ThreadPool:
        pool = ThreadPool(2, "pool-forget")
        await pool.map(lambda _: None, range(9))
        return pool

    pool = asyncio.run(forget())
    assert len(find_threads("pool-forget")) == 2
    del pool
    gc.collect()
    wait_until(lambda: not find_threads("pool-forget"))


def test_closed_loop_gets_no_calls() -> None:
    """Calling into a closed loop does nothing."""
    called: list[str] = []
    loop = asyncio.new_event_loop()
    call_in_loop(loop, called.append, "in time")
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    call_in_loop(loop, called.append, "too late")
    assert called == ["in time"]


def test_program_ends_when_a_call_hangs_and_others_wait() -> None:
    """A call that is nearly done finishes, one that hangs is abandoned, one not yet started never runs."""
    done = _run("""
import asyncio, threading, time
from recollect.concurrency import threads
threads._EXIT_SECONDS = 0.5
begun = [threading.Event(), threading.Event()]
def finish():
    begun[0].set(); time.sleep(0.1); print("finished", flush=True)
def hang():
    begun[1].set(); threading.Event().wait()
short, long = threads.ThreadPool(1, "short"), threads.ThreadPool(1, "long")
for pool, call in ((short, finish), (long, hang)):
    pool.post(call)
    pool.post(lambda: print("never", flush=True))
for event in begun:
    event.wait()
""")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["finished"], "")


def _run(program: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=GENEROUS)
