"""Background tasks: one after the other for one subject, concurrently for several."""

import asyncio

import pytest

from recollect.concurrency.tasks import BackgroundTasks

pytestmark = pytest.mark.anyio


async def test_work_on_a_subject_waits_for_earlier_work_on_it_and_for_no_other() -> None:
    """The second task of a subject starts when the first is done; another subject's starts at once."""
    tasks, steps = BackgroundTasks(), list[str]()
    go_on, other_is_done = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        await go_on.wait()
        steps.append("first")

    async def second() -> None:
        steps.append("second")

    async def other() -> None:
        steps.append("other")
        other_is_done.set()

    tasks.start("monday", first())
    tasks.start("monday", second())
    tasks.start("tuesday", other())
    await other_is_done.wait()
    assert steps == ["other"]
    go_on.set()
    await tasks.join()
    assert steps == ["other", "first", "second"]


async def test_work_runs_when_earlier_work_on_its_subject_was_cancelled() -> None:
    """A cancelled task blocks no later one."""
    tasks, steps = BackgroundTasks(), list[str]()
    begun = asyncio.Event()

    async def cancelled() -> None:
        begun.set()
        raise asyncio.CancelledError

    async def work() -> None:
        steps.append("done")

    tasks.start("monday", cancelled())
    tasks.start("monday", work())
    await begun.wait()
    await tasks.join()
    assert steps == ["done"]
