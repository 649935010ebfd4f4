"""A thread that does one thing after another for an event loop."""

import asyncio
import gc
import threading

import pytest
from tests.support.waiting import GENEROUS, until, wait_until

from recollect.concurrency.worker import Worker

pytestmark = pytest.mark.anyio


def named(name: str) -> list[threading.Thread]:
    """Return the threads of a name that run."""
    return [thread for thread in threading.enumerate() if thread.name == name]


async def test_what_is_asked_for_is_done_in_order_by_one_thread() -> None:
    """Whether somebody waits for it or not."""
    worker, done = Worker("worker-order"), list[int]()
    assert not named("worker-order")
    for number in range(10):
        worker.post(lambda number=number: done.append(number))
    assert await worker.run(lambda: [*done, threading.current_thread().name]) == [*range(10), "worker-order"]
    assert len(named("worker-order")) == 1
    await worker.close()


async def test_error_belongs_to_the_caller_and_the_thread_goes_on() -> None:
    """Whoever comes next is served."""
    worker = Worker("worker-error")

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await worker.run(fail)
    assert await worker.run(lambda: "fine") == "fine"
    await worker.close()


async def test_what_is_not_begun_is_left_out_when_its_caller_is_cancelled() -> None:
    """A caller who is cancelled leaves at once, and what is under way is finished."""
    worker, begun, gate, done = Worker("worker-cancel"), threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        begun.set()
        gate.wait(GENEROUS)
        done.append("first")

    first = asyncio.create_task(worker.run(slow))
    second = asyncio.create_task(worker.run(lambda: done.append("second")))
    await until(begun.is_set)
    for task in (first, second):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.set()
    await worker.run(lambda: done.append("third"))
    assert done == ["first", "third"]
    await worker.close()


async def test_closing_finishes_what_was_posted_and_ends_the_thread() -> None:
    """One that was never needed has nothing to end."""
    worker, done = Worker("worker-close"), list[int]()
    for number in range(100):
        worker.post(lambda number=number: done.append(number))
    await worker.close()
    assert done == [*range(100)]
    assert not named("worker-close")
    await Worker("worker-close").close()


def test_thread_ends_when_its_loop_ended_without_a_word() -> None:
    """A worker that nobody closed ends when nobody has it any more; a loop that is gone gets no answer."""
    answered: list[str] = []

    async def forget() -> Worker:
        worker = Worker("worker-forget")
        await worker.run(lambda: None)
        return worker

    worker = asyncio.run(forget())
    assert len(named("worker-forget")) == 1
    worker.call_back(answered.append, "too late")
    del worker
    gc.collect()
    wait_until(lambda: not named("worker-forget"))
    assert not answered
