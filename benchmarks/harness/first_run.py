"""The first turn of a process: by how much it stalls the event loop, after `prepare` and without it.

A process has only one first turn, so this is a program: `python -m benchmarks.harness.first_run [prepare]`.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any

from recollect.agent.agent import Agent
from recollect.memory.memory import Memory
from recollect.testing import ScriptedModel

_TICK = 0.001


def measure_stall(*, is_prepared: bool) -> float:
    """Return the longest stall of the first turn of a new process, in milliseconds."""
    command = [sys.executable, "-m", __name__, *(["prepare"] if is_prepared else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def _run_first_turn(*, is_prepared: bool) -> float:
    async with Memory(user_id="bench") as memory:
        agent = Agent(ScriptedModel("fine"), memory=memory)
        if is_prepared:
            await agent.prepare()
        return await _find_longest_stall(agent.generate("hello"))


async def _find_longest_stall(work: Coroutine[Any, Any, object]) -> float:
    """Return by how many milliseconds a task that sleeps for one oversleeps at most meanwhile."""
    longest = 0.0
    task = asyncio.create_task(work)
    while not task.done():
        started = time.perf_counter()
        await asyncio.sleep(_TICK)
        longest = max(longest, time.perf_counter() - started - _TICK)
    await task
    return longest * 1000


if __name__ == "__main__":
    print(asyncio.run(_run_first_turn(is_prepared="prepare" in sys.argv)))  # noqa: T201 - the parent reads it
