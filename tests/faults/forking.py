"""A process that opens a store and forks: `python -m tests.faults.forking <case> <url> <other url>`.

The child opens its own store at the other URL. The process prints one JSON object with what child and
parent saw. It is a program of its own because a test runner has threads that do not survive a fork.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support.waiting import GENEROUS

from recollect import Message, RecollectError, Scope, Store, open_store, users

SCOPE = Scope(1, "ann", "chat")
ATTEMPTS = 40


async def append(store: Store, name: str) -> str:
    """Append one message and return its id."""
    await store.append_turn([Message("user", "Hello.", id=name)], scope=SCOPE)
    return name


async def append_at(url: str, name: str) -> str:
    """Append one message through a store of its own."""
    async with open_store(url) as store:
        return await append(store, name)


async def ids_in(url: str) -> list[str]:
    """Return the ids of all messages, as a store that was opened just now sees them."""
    async with open_store(url) as store:
        return [message.id for message in await store.last_messages(None, scope=SCOPE)]


def outcome_of(action: Callable[[], object]) -> list[object]:
    """Return what an action returns, or the name and the text of its error."""
    try:
        return ["value", action()]
    except RecollectError as error:
        return [type(error).__name__, str(error)]


def in_child(action: Callable[[], object], *, leave_politely: bool = False) -> Callable[[], object]:
    """Fork, and return how to learn what the action gave in the child; None if the child hung or died.

    Leaving politely runs all that a normal end of a process does. A child forked inside an event loop
    must not: asyncio itself would close the loop, which is still the parent's.
    """
    reading, writing = os.pipe()
    if (process := os.fork()) == 0:
        signal.alarm(GENEROUS)  # a child that hangs is ended by the alarm clock
        os.write(writing, json.dumps(action()).encode())
        if leave_politely:
            sys.exit(0)
        os._exit(0)
    os.close(writing)

    def answer() -> object:
        with os.fdopen(reading) as line:
            text = line.read()
        os.waitpid(process, 0)
        return json.loads(text) if text else None

    return answer


def run_alone(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine in an event loop of its own, also where a forked loop seems to be running."""
    asyncio._set_running_loop(None)  # noqa: SLF001 - a child forked inside a loop inherits it as running
    return asyncio.run(coroutine)


async def inherited_store(url: str, other: str) -> dict[str, object]:
    """The child uses the store of its parent, then one of its own; the parent goes on."""
    async with open_store(url) as store:
        await append(store, "before")

        def child() -> list[object]:
            return [
                outcome_of(lambda: run_alone(append(store, "stolen"))),
                outcome_of(lambda: run_alone(store.last_messages(1, scope=SCOPE))),
                outcome_of(lambda: run_alone(store.close())),
                outcome_of(lambda: run_alone(append_at(other, "child"))),
            ]

        answers = in_child(child)()
        await append(store, "after")
    return {"child": answers, "ids": await ids_in(url), "other ids": await ids_in(other)}


async def same_database(url: str, _: str) -> dict[str, object]:
    """Children open the database of their parent, while it is open there and after it was closed."""
    store = await open_store(url)
    await append(store, "before")
    answers = [in_child(lambda: outcome_of(lambda: run_alone(append_at(url, "first"))))()]
    waiting, go = os.pipe()

    def later_child() -> list[object]:
        os.read(waiting, 1)
        return outcome_of(lambda: run_alone(append_at(url, "second")))

    later = in_child(later_child)
    await append(store, "after")
    await store.close()
    os.write(go, b"!")
    answers.append(later())
    return {"child": answers, "ids": await ids_in(url)}


async def busy_parent(url: str, other: str) -> dict[str, object]:
    """The parent forks in the middle of writing and reading; each child opens a store of its own."""
    over = asyncio.Event()

    async def keep_writing(store: Store, user: int) -> None:
        while not over.is_set():
            turn = [Message("user", "busy " * 40), Message("assistant", "so busy " * 40)]
            await store.append_turn(turn, scope=Scope(1, f"user {user}", "busy"))

    async def keep_reading(store: Store) -> None:
        while not over.is_set():
            await store.user_history(scope=Scope(1, "user 1"))

    answers: list[object] = []
    async with open_store(url) as store:
        tasks = [asyncio.create_task(keep_writing(store, user)) for user in range(8)]
        tasks.append(asyncio.create_task(keep_reading(store)))
        while len(answers) < ATTEMPTS and None not in answers:
            await asyncio.sleep(0.002 * (len(answers) % 7))
            name = f"child {len(answers)}"
            answer = in_child(lambda name=name: outcome_of(lambda: run_alone(append_at(other, name))))
            answers.append(await asyncio.to_thread(answer))
        over.set()
        await asyncio.gather(*tasks)
    return {"child": answers, "other ids": await ids_in(other)}


def sync_functions(url: str, other: str) -> dict[str, object]:
    """The child calls the sync functions of its parent's connection, then connects itself."""
    users.connect(url)
    users.add_message("ann", "user", "before", 1)

    def child() -> list[object]:
        first = outcome_of(lambda: users.add_message("ann", "user", "stolen", 1))
        users.connect(other)
        return [first, outcome_of(lambda: users.add_message("ann", "user", "child", 1) > 0)]

    answers = in_child(child, leave_politely=True)()
    users.add_message("ann", "user", "after", 1)
    return {"child": answers, "said": _said()}


def multiprocessing_fork(url: str, other: str) -> dict[str, object]:
    """The same with the fork method of multiprocessing."""
    context = multiprocessing.get_context("fork")
    users.connect(url)
    users.add_message("ann", "user", "before", 1)
    answers: Any = context.SimpleQueue()

    def child() -> None:
        answers.put(outcome_of(lambda: users.count_messages("ann", 1)))
        users.connect(other)
        answers.put(outcome_of(lambda: users.add_message("ann", "user", "child", 1) > 0))

    process = context.Process(target=child)
    process.start()
    process.join(GENEROUS)
    heard = [answers.get() for _ in range(2)] if process.exitcode == 0 else None
    users.add_message("ann", "user", "after", 1)
    return {"child": heard, "said": _said()}


def _said() -> list[str]:
    return [message.content for message in users.get_recent_messages("ann", 1)]


async def other_loops(url: str, _: str) -> dict[str, object]:
    """The store is used from another event loop in another thread, and after it was closed."""
    answers: list[object] = []

    def elsewhere() -> None:
        answers.append(outcome_of(lambda: asyncio.run(append(store, "elsewhere"))))
        answers.append(outcome_of(lambda: asyncio.run(store.close())))

    async with open_store(url) as store:
        await append(store, "before")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        await append(store, "after")
    for call in (
        append(store, "after closing"),
        store.last_messages(1, scope=SCOPE),
        store.erase(scope=SCOPE),
    ):
        try:
            answers.append(["value", str(await call)])
        except RecollectError as error:
            answers.append([type(error).__name__, str(error)])
    return {"child": answers, "ids": await ids_in(url)}


def main(case: str, url: str, other: str) -> None:
    """Run a case and print what it saw."""
    found: Callable[[str, str], Any] = globals()[case]
    seen = found(url, other)
    print(json.dumps(asyncio.run(seen) if asyncio.iscoroutine(seen) else seen), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main(*sys.argv[1:])
