"""The benchmark of the turn: what memory adds to a turn, and what processors cost in a stream.

The models are local and answer at once, so only the work around them is measured.
"""

import asyncio
import gc
import tracemalloc
from pathlib import Path

from benchmarks.harness.first_run import measure_stall
from benchmarks.harness.machine import IN_MEMORY, describe_machine, is_in_memory, scratch_folder
from benchmarks.harness.peers import make_bare_stream, make_bare_turn, make_instant_model
from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import (
    Part,
    Report,
    Show,
    Tick,
    at_most,
    format_micros,
    make_ticker,
    ratio_goal,
)
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import (
    Lap,
    Ratio,
    Timings,
    compute_medians,
    compute_ratio,
    figures_of,
    make_lap,
    race,
)
from benchmarks.sizes import TurnSizes
from recollect.agent.agent import Agent
from recollect.memory.memory import Memory
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor, StreamPart
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store
from recollect.testing import ScriptedModel

CHUNKS = 1_000
"""How many chunks the timed stream has."""

_TURN_LIMIT = 0.15
_STREAM_GOALS = (
    ("through five pass-through processors, against none", 1.05, "five", "none"),
    ("through an agent, against Pydantic AI's bare stream", 1.5, "none", "bare"),
    ("of a local model through an agent, against Pydantic AI's bare stream", 0.5, "local", "bare"),
)
_LINEAR = 1.5  # how much faster than its length the memory of a stream may grow
_STALL_LIMIT = 50  # milliseconds
_PROCESSES = 3
_LAST = 10
_PROCESSORS = 5
_CHUNK = "word "
_PROMPT, _REPLY = SampleTexts().turns(1)[0]
_OURS, _APART = Scope(1, "user", "conversation"), Scope(1, "user", "apart")
# Where each part begins, as a share of the time that a full run takes.
_STARTS = {"a turn": 0.0, "streaming": 0.3, "the first turn": 0.68, "memory of a stream": 0.7}


class PassThrough(Processor):
    """Returns every part unchanged."""

    def __init__(self, place: int) -> None:
        self.id = f"pass-{place}"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:  # noqa: ARG002 - the hook's form
        """Return the part."""
        return [part]


async def run(sizes: TurnSizes, *, show: Show) -> Report:
    """Run all parts and return the report."""
    begin = make_ticker(show, _STARTS)
    with scratch_folder() as folder:
        machine = describe_machine(folder)
        found = await _measure_turn(folder, sizes, begin("a turn"))
        if is_in_memory(folder):
            found.notes.append(IN_MEMORY)
    found.add(await _measure_stream(sizes, begin("streaming")))
    begin("the first turn")
    found.add(await asyncio.to_thread(_measure_first_turn))
    begin("memory of a stream")
    found.add(await _measure_memory(sizes.short_stream, sizes.long_stream))
    show("done", 1)
    return Report("turn", machine, found)


async def _measure_turn(folder: Path, sizes: TurnSizes, tick: Tick) -> Part:
    async with open_store(f"sqlite:///{folder / 'turns.db'}") as store:
        for scope in (_OURS, _APART):
            for turn in SampleTexts().turns(_LAST // 2):
                await store.append_turn(messages_of(turn), scope=scope)
        laps = await _make_laps(store)
        found = await race(laps, rounds=sizes.rounds, tries=sizes.tries, tick=tick, warm_up=sizes.warm_up)
    return _make_turn_part(found)


async def _make_laps(store: Store) -> dict[str, Lap]:
    model = make_instant_model([_REPLY])
    history = await store.last_messages(_LAST, scope=_OURS)
    ours = Agent(model, memory=Memory(store, last_messages=_LAST, tenant_id=1))

    turns = [messages_of((_PROMPT, _REPLY))]

    async def two_operations() -> None:
        await store.last_messages(_LAST, scope=_APART)
        await store.append_turn(turns.pop(), scope=_APART)

    async def store_lap(count: int) -> list[float]:
        # Creating messages is the agent's work, not the store's.
        turns.extend(messages_of((_PROMPT, _REPLY)) for _ in range(count))
        return await make_lap(two_operations)(count)

    return {
        "ours": make_lap(
            lambda: ours.generate(_PROMPT, tenant_id=1, resource_id=_OURS.user_id, thread_id=_OURS.thread_id)
        ),
        "store": store_lap,
        "bare": make_lap(make_bare_turn(model, _PROMPT, history)),
    }


def _make_turn_part(found: dict[str, Timings]) -> Part:
    ours, store, bare = (found[name] for name in ("ours", "store", "bare"))
    added = Ratio.of(
        _compute_added(ours.p50, store.p50, bare.p50),
        (_compute_added(*laps) for laps in compute_medians(ours, store, bare)),
    )
    goal = at_most(
        "SQLite: a turn with history, less the store's two operations: what it adds to a bare turn",
        _TURN_LIMIT,
        added.value,
        ours=format_micros(ours.p50 - store.p50),
        other=format_micros(bare.p50),
        spread=added.spread,
    )
    note = (
        f"A whole turn took {format_micros(ours.p50)}, of which the store's two operations, measured apart, "
        f"take {format_micros(store.p50)}. What a turn adds is (turn - store - bare) / bare; it is below "
        "zero where our loop costs less than Pydantic AI's own."
    )
    return Part([goal], {"turn": figures_of(found)}, [note])


def _compute_added(ours: float, store: float, bare: float) -> float:
    return (ours - store - bare) / bare


async def _measure_stream(sizes: TurnSizes, tick: Tick) -> Part:
    """Race our streams, with and without processors, with each other and with the model layer's own."""
    chunks = [_CHUNK] * CHUNKS
    agents = {
        "five": _make_agent(CHUNKS, _PROCESSORS),
        "none": _make_agent(CHUNKS, 0),
        "local": Agent(ScriptedModel([chunks])),
    }
    laps = {name: make_lap(lambda agent=agent: _drain(agent)) for name, agent in agents.items()}
    laps["bare"] = make_lap(make_bare_stream(make_instant_model(chunks), _PROMPT))
    found = await race(laps, rounds=sizes.stream_rounds, tries=sizes.stream_tries, tick=tick)
    goals = [
        ratio_goal(
            f"Streaming {CHUNKS:,} chunks {name}",
            limit,
            compute_ratio(found[ours], found[other]),
            found[ours],
            found[other],
        )
        for name, limit, ours, other in _STREAM_GOALS
    ]
    return Part(goals, {"streaming": figures_of(found)})


def _measure_first_turn() -> Part:
    """Start new processes, and find how long their first turns stall the event loop; the best counts."""
    prepared, other = (
        [measure_stall(is_prepared=is_prepared) for _ in range(_PROCESSES)] for is_prepared in (True, False)
    )
    goal = at_most(
        "The longest stall of the event loop in a process's first turn, after `prepare`",
        _STALL_LIMIT,
        min(prepared),
        unit=" ms",
        ours=f"{min(prepared):,.0f} ms",
        other=f"{min(other):,.0f} ms without it",
    )
    return Part([goal], {"first_turn_stall_ms": {"prepared": prepared, "other": other}})


async def _measure_memory(short: int, long: int) -> Part:
    """Compare the peak memory of a short and a long run, through five processors and memory."""
    await _measure_peak(short)  # warm up: what only the first run loads does not count
    small, large = await _measure_peak(short), await _measure_peak(long)
    goal = at_most(
        f"Memory of a stream of {long:,} chunks through five processors and memory, against {short:,}",
        _LINEAR * long / short,
        large / small,
        ours=f"{large / 1024:,.0f} KB",
        other=f"{small / 1024:,.0f} KB",
    )
    note = (
        f"Memory is the peak that tracemalloc sees; growth in line with the length gives {long / short:g} "
        "times, less by what every run holds."
    )
    return Part([goal], {"stream_peak_bytes": {str(short): small, str(long): large}}, [note])


async def _measure_peak(chunks: int) -> int:
    with scratch_folder() as folder:  # a separate store: no history of the run before
        async with Memory(folder / "stream.db", user_id="bench") as memory:
            agent = _make_agent(chunks, _PROCESSORS, memory)
            await memory.get_messages(1)  # opens the store
            gc.collect()
            tracemalloc.start()
            try:
                await _drain(agent)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()


def _make_agent(chunks: int, processors: int, memory: Memory | None = None) -> Agent:
    model = make_instant_model([_CHUNK] * chunks)
    return Agent(model, memory=memory, output_processors=[PassThrough(place) for place in range(processors)])


async def _drain(agent: Agent) -> None:
    async for _ in agent.stream("Tell me everything."):
        pass
