"""`recollect bench runtime`: what long-term memory adds to a run of the agent loop."""

import asyncio
from typing import TYPE_CHECKING

from recollect.cli.bench_store import Quick, tell
from recollect.cli.options import Json
from recollect.cli.output import progress_bar
from recollect.errors import ModelUnavailableError

if TYPE_CHECKING:
    from recollect.bench.report import Report


def bench_runtime(json: Json = False, quick: Quick = False) -> None:
    """Measure what curated files and a gateway add to a run whose model answers at once."""
    report = run_runtime(quick=quick)
    tell(report, as_json=json)


def run_runtime(*, quick: bool) -> "Report":
    """Run the benchmark of the runtime behind a progress bar."""
    try:
        from recollect.bench.runtime import QUICK, RuntimeSizes, run
    except ImportError as error:
        raise ModelUnavailableError("the agent needs its extra: pip install 'recollect[agent]'") from error
    with progress_bar() as show:
        return asyncio.run(run(QUICK if quick else RuntimeSizes(), show=show))
