"""`recollect bench turn`: what a turn and a stream cost, against a bare Pydantic AI agent."""

import asyncio
from typing import TYPE_CHECKING

from recollect.cli.bench_store import Quick, tell
from recollect.cli.options import Json
from recollect.cli.output import progress_bar
from recollect.errors import ModelUnavailableError

if TYPE_CHECKING:
    from recollect.bench.report import Report


def bench_turn(json: Json = False, quick: Quick = False) -> None:
    """Measure a turn with history, streaming through processors, and the memory that a stream holds."""
    report = run_turn(quick=quick)
    tell(report, as_json=json)


def run_turn(*, quick: bool) -> "Report":
    """Run the benchmark of the turn behind a progress bar."""
    try:
        from recollect.bench.turn import QUICK, TurnSizes, run
    except ImportError as error:
        raise ModelUnavailableError("the agent needs its extra: pip install 'recollect[agent]'") from error
    with progress_bar() as show:
        return asyncio.run(run(QUICK if quick else TurnSizes(), show=show))
