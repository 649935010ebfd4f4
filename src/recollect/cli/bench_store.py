"""`recollect bench store`: how fast the store is, against the bare drivers and a peer."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.options import Json
from recollect.cli.output import console, progress_bar, write_json

if TYPE_CHECKING:
    from recollect.bench.report import Report

Quick = Annotated[bool, typer.Option("--quick", help="Only see that it works: the figures mean little.")]
Postgres = Annotated[
    str | None,
    typer.Option("--postgres", help="A server to measure on, as a superuser; without it one is started."),
]
Messages = Annotated[
    int | None,
    typer.Option("--messages", min=1000, help="The size of the large store; 1,000,000 if not given."),
]


def bench_store(
    json: Json = False, quick: Quick = False, postgres: Postgres = None, messages: Messages = None
) -> None:
    """Measure the store in alternating rounds with the bare drivers and with SQLiteSession."""
    report = run_store(quick=quick, postgres=postgres, messages=messages)
    tell(report, as_json=json)


def run_store(*, quick: bool, postgres: str | None, messages: int | None) -> "Report":
    """Run the benchmark of the store behind a progress bar."""
    from recollect.bench.sizes import QUICK, Sizes
    from recollect.bench.store import run

    sizes = (QUICK if quick else Sizes()).with_large_store(messages)
    with progress_bar() as show:
        return asyncio.run(run(sizes, postgres=postgres, show=show))


def tell(report: "Report", *, as_json: bool) -> None:
    """Write a report for a program, or show it to a person."""
    if as_json:
        write_json(report.as_json())
    else:
        show_report(report)


def show_report(report: "Report") -> None:
    """Show a report to a person."""
    from rich.table import Table

    table = Table("work", "goal", "measured", "spread", "ours", "other", "met")
    for goal in report.found.goals:
        measured = "not measured" if goal.measured is None else f"{goal.measured:.2f}"
        met = {True: "yes", False: "no", None: "not judged"}[goal.met]
        table.add_row(goal.name, goal.goal, measured, goal.spread, goal.ours, goal.other, met)
    out = console()
    out.print(table)
    for note in report.found.notes:
        out.print(f"- {note}", markup=False)
