"""Showing a report: as JSON, as tables at a terminal, and on the page docs/benchmarks.md.

The tables of the page are between markers; the text around them is written by hand.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from rich.table import Table

from benchmarks.harness.report import NOTHING, Goal, Report
from recollect.cli.output import make_console, write_json
from recollect.errors import InvalidArgumentError

_MET = {True: "yes", False: "no", None: "not judged"}


def show_report(report: Report, *, as_json: bool = False) -> None:
    """Print a report as JSON or as tables."""
    if as_json:
        write_json(report.as_json())
        return
    table = Table("work", "goal", "measured", "spread", "ours", "other", "met")
    for goal in report.found.goals:
        table.add_row(*_make_cells(goal))
    out = make_console()
    out.print(table)
    for note in report.found.notes:
        out.print(f"- {note}", markup=False)
    for further in _make_further_tables(report):
        out.print(further)


def _make_further_tables(report: Report) -> Iterator[Table]:
    """Yield tables of what recall found in several languages, and the guards in labelled texts."""
    figures = cast("dict[str, dict[str, Any]]", report.further)
    if languages := cast("dict[str, dict[str, dict[str, float]]]", figures.get("languages")):
        table = Table("language", "system", "recall@1", "recall@5", "recall@10")
        for language, systems in languages.items():
            for name, each in systems.items():
                table.add_row(language, name, *map(_format_number, each.values()))
        yield table
    if pii := figures.get("pii"):
        table = Table("PII", "precision", "recall", "F1", "labelled", "found")
        for name, each in pii.items():
            if isinstance(each, dict):
                table.add_row(name, *map(_format_number, cast("dict[str, float | None]", each).values()))
        yield table
    if rules := figures.get("injection"):
        table = Table("injection", "recall", "false alarms", "ms per kB")
        for name, each in (("rules", rules), ("rules and classifier", rules["with_classifier"])):
            if each:
                keys = ("recall", "false_positive_rate", "ms_per_kb")
                table.add_row(name, *(_format_number(each[key]) for key in keys))
        yield table


def _format_number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:g}"


def write_page(path: Path, report: Report) -> None:
    """Replace a report's tables on the page."""
    text = path.read_text("utf-8")
    begin, end = (f"<!-- {report.bench}: {edge} -->" for edge in ("begin", "end"))
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise InvalidArgumentError("page", f"{path} lacks the markers {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{render_markdown(report)}\n\n{end}{after}", "utf-8")


def render_markdown(report: Report) -> str:
    """Return a report as Markdown."""
    return "\n".join(_render_lines(report))


def _render_lines(report: Report) -> Iterator[str]:
    yield f"Measured on {report.date} with `python -m benchmarks {report.bench}`, on {_describe(report)}."
    yield ""
    yield "| work | goal | measured | middle 80 % of rounds | recollect, p50 | other, p50 | met |"
    yield "|---|---|---|---|---|---|---|"
    yield from (_render_row(goal) for goal in report.found.goals)
    if report.found.notes:
        yield ""
    yield from (f"- {note}" for note in report.found.notes)


def _render_row(goal: Goal) -> str:
    *cells, met = _make_cells(goal)
    return f"| {' | '.join(cells)} | {'**no**' if met == 'no' else met} |"


def _make_cells(goal: Goal) -> tuple[str, ...]:
    measured = "not measured" if goal.measured is None else f"{goal.measured:.2f}"
    return goal.name, goal.goal, measured, goal.spread, goal.ours, goal.other, _MET[goal.met]


def _describe(report: Report) -> str:
    known = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in _list_versions(known))
    return (
        f"{known['cores']} cores ({known['architecture']}, {known['system']}), {known['file_system']}, "
        f"where a bare `fdatasync` of 4 KB takes {known['fdatasync_ms']} ms; load average "
        f"{known['load_average']} at the start; Python {known['python']}, {versions}"
    )


def _list_versions(machine: dict[str, object]) -> list[tuple[str, object]]:
    found = cast("dict[str, object]", machine["versions"])
    if "postgresql" in machine:
        found = {**found, "PostgreSQL": machine["postgresql"]}
    return list(found.items())
