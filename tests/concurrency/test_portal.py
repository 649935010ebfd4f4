"""The bridge from sync to async code: values and errors come back, and nobody hangs on a portal that ends."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from recollect import RecollectError
from recollect.concurrency.portal import Portal
from recollect.errors import StoreMisuseError


def portal_threads() -> set[threading.Thread]:
    """Return the threads of portals that run."""
    return {thread for thread in threading.enumerate() if thread.name == "recollect-portal"}


async def value(of: str) -> str:
    """Return it, a moment later."""
    await asyncio.sleep(0)
    return of


async def fail() -> None:
    """Raise an error."""
    await asyncio.sleep(0)
    raise ValueError("no")


def test_value_and_error_come_back_to_the_caller() -> None:
    """From one thread with one loop, whoever calls."""
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
    """In the words of its owner; closing twice is no error."""
    portal = Portal("agent", advice="make another")
    portal.close()
    portal.close()
    assert not portal.is_usable
    portal.call(lambda: None)
    with pytest.raises(StoreMisuseError, match="this agent is closed; make another"):
        portal.run(value("late"))


def test_caller_is_told_when_the_portal_is_closed_meanwhile() -> None:
    """What is under way is given up, and nobody waits for ever."""
    portal, begun = Portal(), threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: portal.run(wait()))
        begun.wait()
        portal.close()
        with pytest.raises(StoreMisuseError, match="closed while the call was under way"):
            call.result()


def test_call_that_gives_something_up_is_no_cancelled_caller() -> None:
    """A cancellation inside becomes an error of ours."""
    portal = Portal()

    async def give_up() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(RecollectError, match="gave up something"):
        portal.run(give_up())
    portal.close()


def test_call_from_its_own_loop_is_refused() -> None:
    """It would wait for itself."""
    portal = Portal()

    async def trap() -> str:
        return portal.run(value("never"))

    with pytest.raises(StoreMisuseError, match="inside its own event loop"):
        portal.run(trap())
    portal.close()


def test_what_comes_last_is_done_in_the_loop_before_it_ends() -> None:
    """However many calls there were, it is done once."""
    portal, done = Portal(), list[str]()

    async def last() -> None:
        done.append(await value("last"))

    portal.end_with(last)
    portal.run(value("first"))
    assert done == []
    portal.close()
    assert done == ["last"]


def test_what_comes_last_fails_and_the_thread_ends_all_the_same() -> None:
    """The error is raised to whoever closes, and is no reason to stay."""
    before, portal = portal_threads(), Portal()
    portal.end_with(fail)
    with pytest.raises(ValueError, match="no"):
        portal.close()
    assert portal_threads() == before
