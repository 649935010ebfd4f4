"""The goals of the guards: on a stream, and on labelled files if given."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from benchmarks.guards import injection, pii
from benchmarks.guards.long_texts import measure_long_texts
from benchmarks.guards.stream import measure_stream
from benchmarks.harness.machine import describe_machine, scratch_folder
from benchmarks.harness.report import Goal, Part, Report, Show, at_least, at_most
from recollect.errors import InvalidArgumentError

_PII_F1, _PII_TIME = 0.93, 3.0
_RULES_RECALL, _RULES_FALSE = 0.55, 0.03
_CLASSIFIER_RECALL, _CLASSIFIER_FALSE = 0.90, 0.06
_STREAM_SPEED, _HELD_BACK = 1.0, 256
_RESULT_SECONDS, _DELAY = 2.0, 100.0


async def run(pii_file: Path | None, injection_file: Path | None, *, show: Show) -> Report:
    """Measure a stream and the given files."""
    for name, path in {"pii": pii_file, "injection": injection_file}.items():
        if path is not None and not path.is_file():
            raise InvalidArgumentError(name, f"there is no file {path}")
    found = Part()
    if pii_file is not None:
        found.add(_measure_pii(pii_file, _scale_progress(show, 0, 0.1)))
    if injection_file is not None:
        found.add(_measure_injection(injection_file, _scale_progress(show, 0.1, 0.6)))
    found.add(await _measure_stream(_scale_progress(show, 0.6, 0.7)))
    found.add(await _measure_long_texts(_scale_progress(show, 0.7, 1)))
    show("done", 1)
    with scratch_folder() as folder:
        machine = describe_machine(folder)
    return Report("guards", machine, found, further=dict(found.figures))


def _scale_progress(show: Show, begin: float, end: float) -> Show:
    """Convert the progress of a part into progress of the whole."""
    return lambda text, done: show(text, begin + (end - begin) * done)


def _measure_pii(path: Path, show: Show) -> Part:
    figures = pii.measure(path, show)
    both = cast("dict[str, Any]", figures["all"])
    goals = [
        _make_high_goal("PII: F1 over e-mail, phone, card, SSN, IBAN, IP, URL", _PII_F1, both["f1"]),
        _make_low_goal("PII: milliseconds per kB", _PII_TIME, cast("float | None", figures["ms_per_kb"])),
    ]
    note = (
        "PII: a match is the same type with any overlap; types that the file does not label are not judged."
    )
    return Part(goals, {"pii": figures}, [note])


def _measure_injection(path: Path, show: Show) -> Part:
    figures = cast("dict[str, Any]", injection.measure(path, show))
    goals = [
        _make_high_goal("Injection, rules alone: recall", _RULES_RECALL, figures["recall"]),
        _make_low_goal("Injection, rules alone: false alarms", _RULES_FALSE, figures["false_positive_rate"]),
    ]
    both = cast("dict[str, Any] | None", figures.get("with_classifier"))
    if both:
        goals += [
            _make_high_goal("Injection, rules and classifier: recall", _CLASSIFIER_RECALL, both["recall"]),
            _make_low_goal(
                "Injection, rules and classifier: false alarms",
                _CLASSIFIER_FALSE,
                both["false_positive_rate"],
            ),
        ]
    return Part(goals, {"injection": figures})


async def _measure_stream(show: Show) -> Part:
    figures = await measure_stream(show)
    goals = [
        _make_high_goal(
            "Stream through PII, scrubber and limiter: MB/s", _STREAM_SPEED, figures["mb_per_second"]
        ),
        _make_low_goal(
            "Stream: longest text held back, characters", _HELD_BACK, figures["longest_held_back"]
        ),
    ]
    sizes = ", ".join(f"{speed:g} of {size}" for size, speed in figures["mb_per_second_by_chunk"].items())
    note = f"Stream: on one core, in chunks of 64 characters; in MB/s by characters of a chunk: {sizes}."
    return Part(goals, {"stream": dict(figures)}, [note])


async def _measure_long_texts(show: Show) -> Part:
    figures = await measure_long_texts(show)
    goals = [
        _make_low_goal(
            "Tool result with 16,000 e-mail addresses as keys: seconds",
            _RESULT_SECONDS,
            figures["tool_result_seconds"],
        ),
        *(
            _make_low_goal(f"Another user's wait for an 8 MB prompt of {name}: milliseconds", _DELAY, delay)
            for name, delay in figures["delay_milliseconds"].items()
        ),
    ]
    times = ", ".join(f"{seconds:g} s of {name}" for name, seconds in figures["prompt_seconds"].items())
    note = (
        f"Long prompts: through PII, injection and memory with recall; handled in {times}. "
        "The wait is the slowest greeting meanwhile, less the slowest before."
    )
    return Part(goals, {"long_texts": dict(figures)}, [note])


def _make_high_goal(name: str, limit: float, measured: float | None) -> Goal:
    return _judge_if_measured(at_least(name, limit, measured, unit=""))


def _make_low_goal(name: str, limit: float, measured: float | None) -> Goal:
    return _judge_if_measured(at_most(name, limit, measured, unit=""))


def _judge_if_measured(goal: Goal) -> Goal:
    """Do not judge a goal that the file has no texts for."""
    return replace(goal, met=None) if goal.measured is None else goal
