"""Cancelling a coroutine at a chosen suspension: the N-th time that it gives the event loop a turn."""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


async def cancel_at(step: int, make: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    """Run a coroutine in a task of its own, and cancel that task when it waits for the N-th time.

    Returns whether it has waited so often; if not, it was not cancelled.
    """
    waits = 0

    @types.coroutine
    def count(work: Coroutine[Any, Any, object]) -> Generator[object, object, object]:
        nonlocal waits
        errors: list[
            BaseException
        ] = []  # a variable would tie the error to its own frame, and keep all alive
        while True:
            try:
                awaited = work.throw(errors.pop()) if errors else work.send(None)
            except StopIteration as done:
                return done.value
            waits += 1
            if waits == step:
                task.get_loop().call_soon(task.cancel)  # by then the task waits for what is yielded next
            try:
                yield awaited
            except BaseException as thrown:  # noqa: BLE001 - it belongs to the coroutine
                errors.append(thrown)

    async def run() -> object:
        return await count(make())

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return waits >= step
