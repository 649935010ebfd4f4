"""The bridge from sync to async code: values and errors come back, and no caller hangs when a portal ends."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from recollect import RecollectError
from recollect.concurrency.portal import Portal
from recollect.errors import StoreMisuseError


def portal_threads() -> set[threading.Thread]:
    """Return the running threads of portals."""
    return {thread for thread in threading.enumerate() if thread.name == "recollect-portal"}


async def value(of: str) -> str:
    """Return a value after a turn of the event loop."""
    await asyncio.sleep(0)
    return of


async def fail() -> None:
    """Raise an error."""
    await asyncio.sleep(0)
    raise ValueError("no")


def test_value_and_error_come_back_to_the_caller() -> None:
    """All callers share one thread with one loop."""
    before, portal = portal_threads(), Portal()
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(portal.run, value(of)) for of in "abcdefgh"]
        assert [call.result() for call in calls] == [*"abcdefgh"]
    assert len(portal_threads() - before) == 1
    with pytest.raises(ValueError, match="no"):
        portal.run(fail())
    assert portal.is_usable
    portal.close()
    assert portal_threads() == before


def test_closed_portal_says_what_to_do() -> None:
    """The error names the owner and its advice; closing twice is no error."""
    portal = Portal("agent", advice="make another")
    portal.close()
    portal.close()
    assert not portal.is_usable
    portal.call(lambda: None)
    with pytest.raises(StoreMisuseError, match="this agent is closed; make another"):
        portal.run(value("late"))


def test_caller_is_told_when_the_portal_is_closed_meanwhile() -> None:
    """Running calls are cancelled, and no caller waits forever."""
    portal, begun = Portal(), threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: portal.run(wait()))
        begun.wait()
        portal.close()
        with pytest.raises(StoreMisuseError, match="closed while the call was running"):
            call.result()


def test_cancellation_inside_a_call_does_not_cancel_the_caller() -> None:
    """It becomes a `RecollectError`."""
    portal = Portal()

    async def give_up() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(RecollectError, match="cancelled from inside"):
        portal.run(give_up())
    portal.close()


def test_call_from_its_own_loop_is_rejected() -> None:
    """It would wait for itself."""
    portal = Portal()

    async def trap() -> str:
        return portal.run(value("never"))

    with pytest.raises(StoreMisuseError, match="inside its own event loop"):
        portal.run(trap())
    portal.close()


def test_close_hook_runs_in_the_loop_before_it_ends() -> None:
    """It runs once, however many calls there were."""
    portal, done = Portal(), list[str]()

    async def last() -> None:
        done.append(await value("last"))

    portal.set_close_hook(last)
    portal.run(value("first"))
    assert done == []
    portal.close()
    assert done == ["last"]


def test_thread_ends_when_its_close_hook_fails() -> None:
    """`close` raises the error of the hook."""
    before, portal = portal_threads(), Portal()
    portal.set_close_hook(fail)
    with pytest.raises(ValueError, match="no"):
        portal.close()
    assert portal_threads() == before
