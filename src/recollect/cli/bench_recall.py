"""`recollect bench recall`: how much recall finds, and how long it takes."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.bench_store import Postgres, Quick, tell
from recollect.cli.options import Json
from recollect.cli.output import progress_bar
from recollect.errors import ModelUnavailableError

if TYPE_CHECKING:
    from recollect.bench.report import Report

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Conversations with questions in LoCoMo's form; without them only speed."),
]


def bench_recall(
    data: Data = None, json: Json = False, quick: Quick = False, postgres: Postgres = None
) -> None:
    """Measure how much of the evidence recall finds, and what a question costs against its bare parts."""
    report = run_recall(data=data, quick=quick, postgres=postgres)
    tell(report, as_json=json)


def run_recall(*, data: Path | None, quick: bool, postgres: str | None) -> "Report":
    """Run the benchmark of recall behind a progress bar."""
    try:
        from recollect.bench.locomo import read_conversations
        from recollect.bench.recall import run
        from recollect.bench.recall_sizes import QUICK, RecallSizes
    except ImportError as error:
        raise ModelUnavailableError("recall needs its extra: pip install 'recollect[embed]'") from error
    conversations = None if data is None else read_conversations(data)
    sizes = QUICK if quick else RecallSizes()
    with progress_bar() as show:
        return asyncio.run(run(sizes, data=conversations, postgres=postgres, show=show))
