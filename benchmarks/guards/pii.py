"""How well personal data is found in a file of labelled texts, and how long that takes."""

import time
from pathlib import Path

from tests.support.labelled import kilobytes_of
from tests.support.pii_counts import Count, count, read_labelled

from benchmarks.harness.report import Show
from recollect.guards.detection import Detection
from recollect.guards.pii.finder import TYPES, PIIFinder

STRUCTURED = ("email", "phone", "card", "ssn", "iban", "ip", "url")
"""The types of the goal; they make up `all`."""

_PASSES = 3  # the fastest counts, in processor time, since others use the machine too


def measure(path: Path, show: Show) -> dict[str, object]:
    """Return the figures of each labelled type, of the structured types together, and the time."""
    rows = read_labelled(path)
    finder = PIIFinder(TYPES)
    found = list[list[Detection]]()
    seconds: list[float] = []
    for number in range(_PASSES):
        show(f"pii: {len(rows)} texts", number / _PASSES)
        started = time.process_time()
        found = [finder.find(row.text) for row in rows]
        seconds.append(time.process_time() - started)
    counts = count(rows, found)
    together = Count()
    for name in STRUCTURED:
        together.add(counts.get(name, Count()))
    kilobytes = kilobytes_of([row.text for row in rows])
    figures: dict[str, object] = {name: each.figures() for name, each in sorted(counts.items())}
    return {
        "all": together.figures(),
        **figures,
        "texts": len(rows),
        "ms_per_kb": round(min(seconds) * 1000 / kilobytes, 3) if kilobytes else None,
    }
