"""How long `import recollect` takes, against `import pydantic`, in fresh processes."""

import subprocess
import sys

from benchmarks.report import Goal, Part, Tick, at_most
from benchmarks.sizes import Sizes
from benchmarks.timing import Timings, percentile, race, sync_lap_of

_LIMIT = 3.0
_CODE = {"interpreter": "pass", "ours": "import recollect", "pydantic": "import pydantic"}


async def measure(sizes: Sizes, tick: Tick) -> Part:
    """Start processes that import one or the other or nothing, by turns."""
    laps = {name: sync_lap_of(lambda code=code: _run(code)) for name, code in _CODE.items()}
    found = await race(laps, rounds=sizes.import_rounds, tries=1, tick=tick)
    ours, theirs = (_beyond_start(found, name) for name in ("ours", "pydantic"))
    single = sorted(
        (mine[0] - bare[0]) / (other[0] - bare[0])
        for mine, other, bare in zip(
            found["ours"].rounds, found["pydantic"].rounds, found["interpreter"].rounds, strict=True
        )
    )
    goal = Goal(
        "`import recollect`, against `import pydantic`",
        at_most(_LIMIT),
        round(ours / theirs, 3),
        ours / theirs <= _LIMIT,
        ours=f"{ours * 1000:.0f} ms",
        other=f"{theirs * 1000:.0f} ms",
        spread=f"{percentile(single, 0.1):.2f} to {percentile(single, 0.9):.2f}",
    )
    return Part([goal], {"import": {name: timings.micros() for name, timings in found.items()}})


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def _beyond_start(found: dict[str, Timings], name: str) -> float:
    """Return what an import adds to the start of the interpreter."""
    return max(found[name].p50 - found["interpreter"].p50, 1e-6)
