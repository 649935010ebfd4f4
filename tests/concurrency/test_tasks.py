"""Background tasks: one after the other for a subject, side by side for several."""

import asyncio

import pytest

from recollect.concurrency.tasks import BackgroundTasks

pytestmark = pytest.mark.anyio


async def test_work_on_a_subject_waits_for_earlier_work_on_it_and_for_no_other() -> None:
    """The second turn of a session is told of when the first is done; another session's goes on at once."""
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


async def test_work_goes_on_when_earlier_work_on_its_subject_was_broken_off() -> None:
    """A turn that cannot be told of keeps no later one back."""
    tasks, steps = BackgroundTasks(), list[str]()
    begun = asyncio.Event()

    async def broken_off() -> None:
        begun.set()
        raise asyncio.CancelledError

    async def work() -> None:
        steps.append("done")

    tasks.start("monday", broken_off())
    tasks.start("monday", work())
    await begun.wait()
    await tasks.join()
    assert steps == ["done"]
