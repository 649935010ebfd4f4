"""The benchmark of the runtime: what long-term memory adds to a run of the agent loop.

The model answers at once. The gateway is a separate process on loopback.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.gateway import gateway_process
from benchmarks.harness.machine import IN_MEMORY, describe_machine, is_in_memory, scratch_folder
from benchmarks.harness.peers import make_instant_model
from benchmarks.harness.report import Goal, Part, Report, Show, Tick, at_most, make_ticker
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, Timings, figures_of, make_lap, race
from benchmarks.sizes import RuntimeSizes
from recollect.agent.agent import Agent
from recollect.backends.base import CompletedRun, Recollection, StartedRun
from recollect.backends.gateway.client import MemoryGatewayClient
from recollect.backends.processor import BackendProcessor
from recollect.runtime.config.file import FILE, FOLDER
from recollect.runtime.loader import AgentRuntime, EngineLoader
from recollect.runtime.loop import AgentLoop
from recollect.runtime.sessions.sessions import SessionMemory, Sessions
from recollect.runtime.skills import SkillFolder
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle

_CURATED_LIMIT = 2.0  # milliseconds over the bare loop
_TIMEOUT = 0.25
_CALLS_AT_MOST = 2  # search and add; without add there is no flush
_SLACK = 0.15  # seconds for everything but waiting
_PROMPT, _REPLY = SampleTexts().turns(1)[0]
_KEY, _SESSION = "uk_measured", "conversation"
# Where each part begins, as a share of the time that a full run takes.
_STARTS = {"runs": 0.0, "a gateway that never answers": 0.9}


class NoMemory:
    """A backend that remembers nothing: the bare loop."""

    name = "none"
    rule = ""

    async def recall_before_run(self, run: StartedRun) -> Recollection:
        """Return an empty recollection."""
        del run
        return Recollection()

    async def persist_after_run(self, run: CompletedRun) -> None:
        """Store nothing."""

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return no tools."""
        return ()

    def status(self) -> dict[str, object]:
        """Return the name as the mode."""
        return {"mode": self.name}

    async def close(self) -> None:
        """Do nothing."""


async def run(sizes: RuntimeSizes, *, show: Show) -> Report:
    """Run all parts and return the report."""
    begin = make_ticker(show, _STARTS)
    with scratch_folder() as folder:
        machine = describe_machine(folder)
        with gateway_process() as port, gateway_process("silent") as silent_port:
            found = await _measure(folder, port, sizes, begin("runs"))
            begin("a gateway that never answers")
            found.add(await _measure_silence(folder, silent_port))
        if is_in_memory(folder):
            found.notes.append(IN_MEMORY)
    show("done", 1)
    return Report("runtime", machine, found)


async def _measure(folder: Path, port: int, sizes: RuntimeSizes, tick: Tick) -> Part:
    handle = StoreHandle(f"sqlite:///{folder / 'bare.db'}")
    bare = _make_bare_loop(handle)
    runtimes = {
        "curated": _load_curated(folder / "curated"),
        "gateway": _load_gateway(folder / "before", port, persist="before"),
        "gateway_after": _load_gateway(folder / "after", port, persist="after"),
    }
    settings = runtimes["gateway"].config.gateway
    assert settings is not None  # noqa: S101 - it is in gateway mode
    client = MemoryGatewayClient(settings)
    shares: dict[str, list[float]] = {name: [] for name in runtimes}
    try:
        found = await race(
            {
                "bare": make_lap(lambda: bare.run(_PROMPT, _SESSION)),
                "round_trip": make_lap(lambda: client.search(_SESSION, _PROMPT)),
                **{name: _make_run_lap(runtime, shares[name]) for name, runtime in runtimes.items()},
            },
            rounds=sizes.rounds,
            tries=sizes.tries,
            tick=tick,
            warm_up=sizes.warm_up,
        )
    finally:
        await client.close()
        for runtime in runtimes.values():
            await runtime.close()
        await handle.close()
    return _make_part(found, {name: statistics.median(values) for name, values in shares.items()})


def _make_run_lap(runtime: AgentRuntime, shares: list[float]) -> Lap:
    """Time runs; appends to `shares` the milliseconds that long-term memory took of each."""

    async def lap(count: int) -> list[float]:
        seconds: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            result = await runtime.loop.run(_PROMPT, _SESSION)
            seconds.append(time.perf_counter() - started)
            own = [entry for entry in result.trace if entry.processor_id == BackendProcessor.id]
            shares.append(sum(entry.milliseconds for entry in own))
            await runtime.wait_until_idle()  # work after an answer must not count with the next run
        return seconds

    return lap


def _make_bare_loop(handle: StoreHandle) -> AgentLoop:
    memory = SessionMemory(handle, BackendProcessor(NoMemory()), last_messages=40)
    agent = Agent(make_instant_model([_REPLY]), memory=memory)
    return AgentLoop(agent, Sessions(handle, Scope(None, "local")), SkillFolder(Path("skills")))


def _load_curated(folder: Path) -> AgentRuntime:
    memories = folder / FOLDER / "memories"
    memories.mkdir(parents=True)
    entries = [f"Fact {number}: {reply}"[:180] for number, (_, reply) in enumerate(SampleTexts().turns(7))]
    (memories / "MEMORY.md").write_text("\n§\n".join(entries), "utf-8")
    (memories / "USER.md").write_text("\n§\n".join(entries[:5]), "utf-8")
    return _load(folder, {})


def _load_gateway(folder: Path, port: int, *, persist: str) -> AgentRuntime:
    section = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "userId": "measured",
        "userKey": _KEY,
        "timeoutSeconds": _TIMEOUT,
    }
    return _load(folder, {"persist": persist, "memory": {"mode": "memory_gateway", "gateway": section}})


def _load(folder: Path, config: dict[str, object]) -> AgentRuntime:
    file = folder / FOLDER / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config), "utf-8")
    return EngineLoader(folder).load(model=make_instant_model([_REPLY]))


def _make_part(found: dict[str, Timings], shares: dict[str, float]) -> Part:
    trip = found["round_trip"].p50 * 1e3
    bare = f"{_format_ms(found['bare'])}, bare"

    def in_round_trips(persist: str, calls: str, name: str) -> Goal:
        # A round trip depends on the network, so these figures are not judged.
        title = f'Gateway, persist "{persist}": its share, in round trips'
        return Goal(
            title, calls, round(shares[name] / trip, 2), None, ours=_format_ms(found[name]), other=bare
        )

    goals = [
        at_most(
            "Curated files: their own share of a run",
            _CURATED_LIMIT,
            shares["curated"],
            unit=" ms",
            ours=_format_ms(found["curated"]),
            other=bare,
        ),
        in_round_trips("after", "search alone", "gateway_after"),
        in_round_trips("before", "search, add, flush", "gateway"),
    ]
    note = (
        "A share is the time of long-term memory's own hooks, as the trace has it; an event is a commit. "
        f"A round trip of the client alone took {trip:.2f} ms."
    )
    return Part(goals, {"runtime": figures_of(found), "share_ms": shares}, [note])


async def _measure_silence(folder: Path, port: int) -> Part:
    """Time runs whose gateway accepts connections and never answers."""
    async with _load_gateway(folder / "silent", port, persist="before") as runtime:
        seconds = sorted(await make_lap(lambda: runtime.loop.run(_PROMPT, _SESSION))(3))
    longest = seconds[-1]
    goal = Goal(
        "A gateway that never answers: the longest run, in timeouts (search and add wait one each)",
        f"≤ {_CALLS_AT_MOST:g}, and {_SLACK:g} s for the rest",
        round(longest / _TIMEOUT, 2),
        longest <= _CALLS_AT_MOST * _TIMEOUT + _SLACK,
        ours=f"{longest:.2f} s",
        other=f"{_TIMEOUT:g} s a timeout",
    )
    return Part([goal], {"silent_seconds": [round(second, 3) for second in seconds]})


def _format_ms(timings: Timings) -> str:
    return f"{timings.p50 * 1e3:.2f} ms"
