"""Threads for calls that would hold up the event loop: few, in order, and gone when they are idle."""

import asyncio
import contextvars
import threading

import pytest
from tests.support.waiting import GENEROUS, until

from recollect.concurrency.threads import Offload

pytestmark = pytest.mark.anyio


def named(name: str) -> list[threading.Thread]:
    """Return the threads of a name that run."""
    return [thread for thread in threading.enumerate() if thread.name == name]


async def test_calls_run_in_order_in_a_thread_that_is_not_the_loops() -> None:
    """One thread does one thing after another."""
    offload, done = Offload(1, "offload-order"), list[int]()
    threads = await asyncio.gather(
        *(offload.run(lambda n=n: (done.append(n), threading.current_thread())[1]) for n in range(20))
    )
    assert done == [*range(20)]
    assert {thread.name for thread in threads} == {"offload-order"}


async def test_no_more_threads_than_allowed_work_at_once() -> None:
    """They start when they are needed; the rest of the calls waits."""
    offload, gate = Offload(2, "offload-limit"), threading.Event()
    calls = [asyncio.create_task(offload.run(lambda: gate.wait(GENEROUS))) for _ in range(6)]
    await until(lambda: len(named("offload-limit")) == 2)
    gate.set()
    assert await asyncio.gather(*calls) == [True] * 6
    assert len(named("offload-limit")) <= 2


async def test_call_never_runs_when_it_is_cancelled_before_a_thread_is_free() -> None:
    """Its caller has gone, and nobody wants it."""
    offload, gate, done = Offload(1, "offload-cancel"), threading.Event(), list[str]()
    first = asyncio.create_task(offload.run(lambda: gate.wait(GENEROUS)))
    second = asyncio.create_task(offload.run(lambda: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    assert await first
    await offload.run(lambda: done.append("third"))
    assert done == ["third"]


async def test_items_that_were_not_begun_are_dropped_when_one_fails() -> None:
    """The first failure is raised as it is."""
    offload, begun = Offload(1, "offload-map"), list[int]()
    gate = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        if number == 2:
            gate.wait(GENEROUS)  # what is under way is not broken off
        return number

    assert await offload.map(lambda number: number * 2, range(5)) == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match="no"):
        await offload.map(work, range(9))
    gate.set()
    await offload.run(lambda: None)
    assert begun in ([0, 1], [0, 1, 2])


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError("x"), SystemExit("x")])
async def test_error_that_asyncio_would_misunderstand_is_named_by_another(error: BaseException) -> None:
    """The caller neither hangs nor is taken for cancelled."""

    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"{type(error).__name__} x") as caught:
        await Offload(1, "offload-error").run(fail)
    assert caught.value.__cause__ is error


async def test_call_has_the_context_of_its_caller() -> None:
    """Variables of a task are seen in the thread."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert await Offload(1, "offload-context").run(variable.get) == "mine"


async def test_threads_end_when_they_are_idle_and_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody keeps threads that nobody uses."""
    monkeypatch.setattr("recollect.concurrency.threads._IDLE_SECONDS", 0.01)
    offload = Offload(1, "offload-idle")
    for number in range(3):
        assert await offload.run(lambda number=number: number) == number
        await until(lambda: not named("offload-idle"))
