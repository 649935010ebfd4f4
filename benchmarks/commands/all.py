"""`python -m benchmarks all`: every benchmark, and the page that publishes them."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.guards import run_guards
from benchmarks.commands.recall import Data, run_recall
from benchmarks.commands.runtime import run_runtime
from benchmarks.commands.store import Messages, Postgres, Quick, run_store, show_report
from benchmarks.commands.turn import run_turn
from recollect.cli.output import say
from recollect.errors import InvalidArgumentError

Page = Annotated[Path, typer.Option("--page", help="The page whose tables are written anew.")]


def bench_all(
    quick: Quick = False,
    postgres: Postgres = None,
    messages: Messages = None,
    data: Data = None,
    page: Page = Path("docs/benchmarks.md"),
) -> None:
    """Run every benchmark and write the tables of docs/benchmarks.md."""
    if not page.is_file():
        raise InvalidArgumentError("page", f"there is no {page} here; run this in the repository or name it")
    from benchmarks.page import write_page

    reports = [
        run_recall(data=data, quick=quick, postgres=postgres),
        run_turn(quick=quick),
        run_guards(),
        run_runtime(quick=quick),
        run_store(quick=quick, postgres=postgres, messages=messages),
    ]
    for report in reports:
        show_report(report)
        write_page(page, report)
    say(f"Wrote {page}.")
