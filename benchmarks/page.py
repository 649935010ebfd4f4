"""Writing the tables of docs/benchmarks.md between their markers; the text around them is by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from benchmarks.report import Goal, Report
from recollect.errors import InvalidArgumentError

_MET = {True: "yes", False: "**no**", None: "not judged"}


def write_page(path: Path, report: Report) -> None:
    """Put a report's tables in place of those that the page has."""
    text = path.read_text("utf-8")
    begin, end = (f"<!-- {report.bench}: {edge} -->" for edge in ("begin", "end"))
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise InvalidArgumentError("page", f"{path} lacks the markers {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{tables(report)}\n\n{end}{after}", "utf-8")


def tables(report: Report) -> str:
    """Return a report as Markdown."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"Measured on {report.date} with `python -m benchmarks {report.bench}`, on {_machine(report)}."
    yield ""
    yield "| work | goal | measured | middle 80 % of rounds | recollect, p50 | other, p50 | met |"
    yield "|---|---|---|---|---|---|---|"
    yield from (_row(goal) for goal in report.found.goals)
    if report.found.notes:
        yield ""
    yield from (f"- {note}" for note in report.found.notes)


def _row(goal: Goal) -> str:
    measured = "not measured" if goal.measured is None else f"{goal.measured:.2f}"
    cells = (goal.name, goal.goal, measured, goal.spread, goal.ours, goal.other, _MET[goal.met])
    return f"| {' | '.join(cells)} |"


def _machine(report: Report) -> str:
    known = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in _versions(known))
    return (
        f"{known['cores']} cores ({known['architecture']}, {known['system']}), {known['file_system']}, "
        f"where a bare `fdatasync` of 4 KB takes {known['fdatasync_ms']} ms; load average "
        f"{known['load_average']} at the start; Python {known['python']}, {versions}"
    )


def _versions(machine: dict[str, object]) -> list[tuple[str, object]]:
    found = cast("dict[str, object]", machine["versions"])
    if "postgresql" in machine:
        found = {**found, "PostgreSQL": machine["postgresql"]}
    return list(found.items())
