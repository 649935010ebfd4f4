"""Streaming: what processors that pass everything on cost, and how much memory a long stream holds."""

import gc
import tempfile
import tracemalloc
from pathlib import Path

from recollect.agent.agent import Agent
from recollect.bench.bare_agent import instant_model
from recollect.bench.report import Goal, Part, Tick, at_most, ratio_goal
from recollect.bench.timing import lap_of, race, ratio
from recollect.memory.memory import Memory
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart

CHUNKS = 1_000
"""How long the stream is that is timed."""

_PROCESSORS = 5
_LIMIT = 1.05
_LINEAR = 1.5  # how far from linear the memory may grow
_CHUNK = "word "


class PassThrough(Processor):
    """Lets every part through as it is."""

    def __init__(self, place: int) -> None:
        """Have an id of its own."""
        self.id = f"pass-{place}"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002 - the hook's form
        """Let the part through."""
        return [part]


async def measure_time(rounds: int, tries: int, tick: Tick) -> Part:
    """Let streams with and without processors take turns."""
    laps = {
        name: lap_of(lambda agent=agent: _drain(agent))
        for name, agent in {"five": _agent(CHUNKS, _PROCESSORS), "none": _agent(CHUNKS, 0)}.items()
    }
    found = await race(laps, rounds=rounds, tries=tries, tick=tick)
    name = f"Streaming {CHUNKS:,} chunks through five pass-through processors, against none"
    goal = ratio_goal(name, _LIMIT, ratio(found["five"], found["none"]), found["five"], found["none"])
    return Part([goal], {"streaming": {side: timings.micros() for side, timings in found.items()}})


async def measure_memory(short: int, long: int) -> Part:
    """Compare the most memory that a short and a long run hold, through five processors and memory."""
    await _peak(short)  # what the first run alone loads and keeps does not count
    small, large = await _peak(short), await _peak(long)
    limit = _LINEAR * long / short
    goal = Goal(
        f"Memory of a stream of {long:,} chunks through five processors and memory, against {short:,}",
        at_most(limit),
        round(large / small, 3),
        large / small <= limit,
        ours=f"{large / 1024:,.0f} KB",
        other=f"{small / 1024:,.0f} KB",
    )
    note = (
        f"Memory is the peak that tracemalloc sees; growth in line with the length gives {long / short:g} "
        "times, less by what every run holds."
    )
    return Part([goal], {"stream_peak_bytes": {str(short): small, str(long): large}}, [note])


async def _peak(chunks: int) -> int:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        async with Memory(f"sqlite:///{Path(folder) / 'stream.db'}") as memory:
            agent = _agent(chunks, _PROCESSORS, memory)
            await memory.get_messages(1)  # opens the store
            gc.collect()
            tracemalloc.start()
            try:
                await _drain(agent)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()


def _agent(chunks: int, processors: int, memory: Memory | None = None) -> Agent:
    model = instant_model([_CHUNK] * chunks)
    return Agent(model, memory=memory, output_processors=[PassThrough(place) for place in range(processors)])


async def _drain(agent: Agent) -> None:
    async for _ in agent.stream("Tell me everything."):
        pass
