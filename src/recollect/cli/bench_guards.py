"""`recollect bench guards`: how fast the guards are, and how well they find things in labelled files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recollect.cli.bench_store import show_report
from recollect.cli.options import Json
from recollect.cli.output import console, progress_bar, write_json

if TYPE_CHECKING:
    from recollect.bench.report import Report

Pii = Annotated[
    Path | None,
    typer.Option("--pii", help='JSON lines: {"text": …, "spans": [{"start": …, "end": …, "type": …}]}.'),
]
Injection = Annotated[
    Path | None, typer.Option("--injection", help='JSON lines: {"text": …, "label": 0 or 1}.')
]


def bench_guards(pii: Pii = None, injection: Injection = None, json: Json = False) -> None:
    """Measure the guards on a stream, and how well they find things in labelled texts."""
    report = run_guards(pii=pii, injection=injection)
    if json:
        write_json({**report.as_json(), **report.found.figures})
        return
    show_report(report)
    _show_figures(report)


def run_guards(*, pii: Path | None = None, injection: Path | None = None) -> "Report":
    """Run the benchmark of the guards behind a progress bar."""
    from recollect.bench.guards import run

    with progress_bar() as show:
        return run(pii, injection, show=show)


def _show_figures(report: "Report") -> None:
    from rich.table import Table

    figures = cast("dict[str, dict[str, Any]]", report.found.figures)
    table = Table("PII", "precision", "recall", "F1", "labelled", "found")
    for name, each in figures.get("pii", {}).items():
        if isinstance(each, dict):
            table.add_row(name, *(_written(value) for value in cast("dict[str, Any]", each).values()))
    out = console()
    if table.rows:
        out.print(table)
    rules = figures.get("injection", {})
    table = Table("injection", "recall", "false alarms", "ms per kB")
    for name, each in (("rules", rules), ("rules and classifier", rules.get("with_classifier"))):
        if each:
            keys = ("recall", "false_positive_rate", "ms_per_kb")
            table.add_row(name, *(_written(each[key]) for key in keys))
    if table.rows:
        out.print(table)


def _written(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
