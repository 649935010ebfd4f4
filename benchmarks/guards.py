"""The benchmark of the guards: `python -m benchmarks guards`, on a stream and on labelled files that are named."""

import asyncio
import importlib.util
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from benchmarks import guards_injection, guards_pii
from benchmarks.guards_stream import measure_stream
from benchmarks.machine import facts
from benchmarks.report import Goal, Part, Report, Show
from recollect.errors import InvalidArgumentError

_PII_F1, _PII_TIME = 0.93, 3.0
_RULES_RECALL, _RULES_FALSE = 0.55, 0.03
_CLASSIFIER_RECALL, _CLASSIFIER_FALSE = 0.90, 0.06
_STREAM_SPEED, _HELD_BACK = 1.0, 256


def run(pii: Path | None, injection: Path | None, *, show: Show) -> Report:
    """Measure a stream, and what files are given for."""
    files = [(path, name) for path, name in ((pii, "pii"), (injection, "injection")) if path is not None]
    for path, name in files:
        if not path.is_file():
            raise InvalidArgumentError(name, f"there is no file {path}")
    found = Part()
    if pii is not None:
        found.add(_pii_part(pii, _share_of(show, 0, 0.1)))
    if injection is not None:
        found.add(_injection_part(injection, _share_of(show, 0.1, 0.6)))
    found.add(_stream_part(_share_of(show, 0.6, 1)))
    show("done", 1)
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        machine = facts(Path(folder))
    return Report("guards", datetime.now(UTC).date().isoformat(), machine, found)


def _share_of(show: Show, begin: float, end: float) -> Show:
    """Return what shows the progress of a part as that of the whole."""
    return lambda text, done: show(text, begin + (end - begin) * done)


def _pii_part(path: Path, show: Show) -> Part:
    figures = guards_pii.measure(path, show)
    both = cast("dict[str, Any]", figures["all"])
    goals = [
        _at_least("PII: F1 over e-mail, phone, card, SSN, IBAN, IP, URL", _PII_F1, both["f1"]),
        _at_most("PII: milliseconds per kB", _PII_TIME, cast("float | None", figures["ms_per_kb"])),
    ]
    note = (
        "PII: a match is the same type with any overlap; types that the file does not label are not judged."
    )
    return Part(goals, {"pii": figures}, [note])


def _injection_part(path: Path, show: Show) -> Part:
    figures = cast("dict[str, Any]", guards_injection.measure(path, show))
    goals = [
        _at_least("Injection, rules alone: recall", _RULES_RECALL, figures["recall"]),
        _at_most("Injection, rules alone: false alarms", _RULES_FALSE, figures["false_positive_rate"]),
    ]
    both = cast("dict[str, Any] | None", figures.get("with_classifier"))
    if both:
        goals += [
            _at_least("Injection, rules and classifier: recall", _CLASSIFIER_RECALL, both["recall"]),
            _at_most(
                "Injection, rules and classifier: false alarms",
                _CLASSIFIER_FALSE,
                both["false_positive_rate"],
            ),
        ]
    return Part(goals, {"injection": figures})


def _stream_part(show: Show) -> Part:
    if importlib.util.find_spec("rs_bpe") is None:
        return Part(notes=["Streams were not measured: pip install 'recollect[guard]'."])
    figures = asyncio.run(measure_stream(show))
    goals = [
        _at_least("Stream through PII, scrubber and limiter: MB/s", _STREAM_SPEED, figures["mb_per_second"]),
        _at_most("Stream: longest text held back, characters", _HELD_BACK, figures["longest_held_back"]),
    ]
    sizes = ", ".join(f"{speed:g} of {size}" for size, speed in figures["mb_per_second_by_chunk"].items())
    note = f"Stream: on one core, in chunks of 64 characters; in MB/s by characters of a chunk: {sizes}."
    return Part(goals, {"stream": dict(figures)}, [note])


def _at_least(name: str, limit: float, measured: float | None) -> Goal:
    return Goal(name, f"≥ {limit:g}", measured, None if measured is None else measured >= limit)


def _at_most(name: str, limit: float, measured: float | None) -> Goal:
    return Goal(name, f"≤ {limit:g}", measured, None if measured is None else measured <= limit)
