"""The benchmark of the guards: `recollect bench guards`, on labelled files that the caller names."""

import importlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from recollect.bench import guards_pii
from recollect.bench.machine import facts
from recollect.bench.report import Goal, Part, Report, Show
from recollect.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

_PII_F1, _PII_TIME = 0.93, 3.0
_RULES_RECALL, _RULES_FALSE = 0.55, 0.03
_CLASSIFIER_RECALL, _CLASSIFIER_FALSE = 0.90, 0.06


def run(pii: Path | None, injection: Path | None, *, show: Show) -> Report:
    """Measure what files are given for."""
    if pii is None and injection is None:
        raise InvalidArgumentError("pii", "give a labelled file with --pii, with --injection, or with both")
    found = Part()
    if pii is not None:
        found.add(_pii_part(_existing(pii, "pii"), show))
    if injection is not None:
        found.add(_injection_part(_existing(injection, "injection"), show))
    show("done", 1)
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        machine = facts(Path(folder))
    return Report("guards", datetime.now(UTC).date().isoformat(), machine, found)


def _existing(path: Path, argument: str) -> Path:
    if not path.is_file():
        raise InvalidArgumentError(argument, f"there is no file {path}")
    return path


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
    module = importlib.import_module("recollect.bench.guards_injection")
    measure = cast("Callable[[Path, Callable[[str], object]], dict[str, Any]]", module.measure)
    figures = measure(path, lambda text: show(text, 0.5))
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


def _at_least(name: str, limit: float, measured: float | None) -> Goal:
    return Goal(name, f"≥ {limit:g}", measured, None if measured is None else measured >= limit)


def _at_most(name: str, limit: float, measured: float | None) -> Goal:
    return Goal(name, f"≤ {limit:g}", measured, None if measured is None else measured <= limit)
