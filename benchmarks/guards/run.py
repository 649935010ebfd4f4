"""The goals of the guards: on a stream, and on labelled files where some are given."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from benchmarks.guards import injection, pii
from benchmarks.guards.stream import measure_stream
from benchmarks.harness.machine import facts, scratch_folder
from benchmarks.harness.report import Goal, Part, Report, Show, at_least, at_most
from recollect.errors import InvalidArgumentError

_PII_F1, _PII_TIME = 0.93, 3.0
_RULES_RECALL, _RULES_FALSE = 0.55, 0.03
_CLASSIFIER_RECALL, _CLASSIFIER_FALSE = 0.90, 0.06
_STREAM_SPEED, _HELD_BACK = 1.0, 256


async def run(pii_file: Path | None, injection_file: Path | None, *, show: Show) -> Report:
    """Measure a stream, and what files are given for."""
    for name, path in {"pii": pii_file, "injection": injection_file}.items():
        if path is not None and not path.is_file():
            raise InvalidArgumentError(name, f"there is no file {path}")
    found = Part()
    if pii_file is not None:
        found.add(_pii_part(pii_file, _share_of(show, 0, 0.1)))
    if injection_file is not None:
        found.add(_injection_part(injection_file, _share_of(show, 0.1, 0.6)))
    found.add(await _stream_part(_share_of(show, 0.6, 1)))
    show("done", 1)
    with scratch_folder() as folder:
        machine = facts(folder)
    return Report("guards", machine, found, further=dict(found.figures))


def _share_of(show: Show, begin: float, end: float) -> Show:
    """Turn the progress of a part into that of the whole."""
    return lambda text, done: show(text, begin + (end - begin) * done)


def _pii_part(path: Path, show: Show) -> Part:
    figures = pii.measure(path, show)
    both = cast("dict[str, Any]", figures["all"])
    goals = [
        _high("PII: F1 over e-mail, phone, card, SSN, IBAN, IP, URL", _PII_F1, both["f1"]),
        _low("PII: milliseconds per kB", _PII_TIME, cast("float | None", figures["ms_per_kb"])),
    ]
    note = (
        "PII: a match is the same type with any overlap; types that the file does not label are not judged."
    )
    return Part(goals, {"pii": figures}, [note])


def _injection_part(path: Path, show: Show) -> Part:
    figures = cast("dict[str, Any]", injection.measure(path, show))
    goals = [
        _high("Injection, rules alone: recall", _RULES_RECALL, figures["recall"]),
        _low("Injection, rules alone: false alarms", _RULES_FALSE, figures["false_positive_rate"]),
    ]
    both = cast("dict[str, Any] | None", figures.get("with_classifier"))
    if both:
        goals += [
            _high("Injection, rules and classifier: recall", _CLASSIFIER_RECALL, both["recall"]),
            _low(
                "Injection, rules and classifier: false alarms",
                _CLASSIFIER_FALSE,
                both["false_positive_rate"],
            ),
        ]
    return Part(goals, {"injection": figures})


async def _stream_part(show: Show) -> Part:
    figures = await measure_stream(show)
    goals = [
        _high("Stream through PII, scrubber and limiter: MB/s", _STREAM_SPEED, figures["mb_per_second"]),
        _low("Stream: longest text held back, characters", _HELD_BACK, figures["longest_held_back"]),
    ]
    sizes = ", ".join(f"{speed:g} of {size}" for size, speed in figures["mb_per_second_by_chunk"].items())
    note = f"Stream: on one core, in chunks of 64 characters; in MB/s by characters of a chunk: {sizes}."
    return Part(goals, {"stream": dict(figures)}, [note])


def _high(name: str, limit: float, measured: float | None) -> Goal:
    return _judge_if_measured(at_least(name, limit, measured, unit=""))


def _low(name: str, limit: float, measured: float | None) -> Goal:
    return _judge_if_measured(at_most(name, limit, measured, unit=""))


def _judge_if_measured(goal: Goal) -> Goal:
    """Leave a goal open where the file has nothing to measure it on."""
    return replace(goal, met=None) if goal.measured is None else goal
