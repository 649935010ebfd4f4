"""The commands `python -m benchmarks NAME`; each imports only its own benchmark."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness.output import show_report, write_page
from benchmarks.harness.report import Report, Show
from benchmarks.sizes import (
    QUICK_RECALL,
    QUICK_RUNTIME,
    QUICK_STORE,
    QUICK_TURN,
    RecallSizes,
    RuntimeSizes,
    StoreSizes,
    TurnSizes,
)
from recollect.cli.errors import CommandGroup
from recollect.cli.options import Json
from recollect.cli.output import progress_bar, say
from recollect.errors import InvalidArgumentError

Quick = Annotated[bool, typer.Option("--quick", help="Only check that it works; the figures mean little.")]
Postgres = Annotated[
    str | None,
    typer.Option("--postgres", help="The URL of a server, as a superuser; by default one is started."),
]
Messages = Annotated[
    int | None,
    typer.Option("--messages", min=1000, help="Messages in the large store; 1,000,000 by default."),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        help="A file of chats in the format of LoCoMo, also gzipped; may be given more than once. "
        "Without it only speed is measured.",
    ),
]
Large = Annotated[
    int,
    typer.Option(
        "--large", min=0, help="Also measure a user with so many messages, such as 1000000 (3 GB of memory)."
    ),
]
QualityOnly = Annotated[bool, typer.Option("--quality-only", help="Measure no speed.")]
Languages = Annotated[
    bool, typer.Option("--languages", help="Also measure what is found in five languages, by each embedder.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Fail where hybrid search finds less than a plainer one.")
]
Pii = Annotated[
    Path | None,
    typer.Option("--pii", help='JSON lines: {"text": …, "spans": [{"start": …, "end": …, "type": …}]}.'),
]
Injection = Annotated[
    Path | None, typer.Option("--injection", help='JSON lines: {"text": …, "label": 0 or 1}.')
]
Page = Annotated[Path, typer.Option("--page", help="The page whose tables are replaced.")]

app = typer.Typer(
    name="benchmarks",
    cls=CommandGroup,
    help="Measure speed and quality.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def store(
    json: Json = False, quick: Quick = False, postgres: Postgres = None, messages: Messages = None
) -> None:
    """Measure the store in alternating rounds with the bare drivers and with SQLiteSession."""
    show_report(_run_store(quick=quick, postgres=postgres, messages=messages), as_json=json)


@app.command()
def turn(json: Json = False, quick: Quick = False) -> None:
    """Measure a turn with history, streaming through processors, and the memory use of a stream."""
    show_report(_run_turn(quick=quick), as_json=json)


@app.command()
def recall(  # noqa: PLR0917 - one for each option
    data: Data = None,
    json: Json = False,
    quick: Quick = False,
    postgres: Postgres = None,
    quality_only: QualityOnly = False,
    languages: Languages = False,
    check: Check = False,
    large: Large = 0,
) -> None:
    """Measure how much of the evidence recall finds, and what a question costs."""
    if check and not data:
        raise InvalidArgumentError("check", "needs chats to measure; give them with --data")
    report = _run_recall(
        data=data,
        quick=quick,
        postgres=postgres,
        quality_only=quality_only,
        languages=languages,
        large=large,
    )
    show_report(report, as_json=json)
    if check and any(goal.met is False for goal in report.found.goals if goal.name.startswith("Evidence")):
        raise typer.Exit(1)


@app.command()
def guards(pii: Pii = None, injection: Injection = None, json: Json = False) -> None:
    """Measure the guards on a stream, and their precision and recall on labelled texts."""
    show_report(_run_guards(pii, injection), as_json=json)


@app.command()
def runtime(json: Json = False, quick: Quick = False) -> None:
    """Measure what curated files and a gateway add to a run whose model answers at once."""
    show_report(_run_runtime(quick=quick), as_json=json)


@app.command("all")
def all_(
    quick: Quick = False,
    postgres: Postgres = None,
    messages: Messages = None,
    data: Data = None,
    page: Page = Path("docs/benchmarks.md"),
) -> None:
    """Run every benchmark and write the tables of docs/benchmarks.md."""
    if not page.is_file():
        raise InvalidArgumentError("page", f"there is no {page}; run this in the repository or pass --page")
    reports = [
        _run_recall(data=data, quick=quick, postgres=postgres),
        _run_turn(quick=quick),
        _run_guards(None, None),
        _run_runtime(quick=quick),
        _run_store(quick=quick, postgres=postgres, messages=messages),
    ]
    for report in reports:
        show_report(report)
        write_page(page, report)
    say(f"Wrote {page}.")


def _run_store(*, quick: bool, postgres: str | None, messages: int | None) -> Report:
    from benchmarks.store.run import run

    sizes = (QUICK_STORE if quick else StoreSizes()).with_large_store(messages)
    return _run(lambda show: run(sizes, postgres=postgres, show=show))


def _run_turn(*, quick: bool) -> Report:
    from benchmarks.turn import run

    return _run(lambda show: run(QUICK_TURN if quick else TurnSizes(), show=show))


def _run_recall(
    *,
    data: list[Path] | None,
    quick: bool,
    postgres: str | None,
    quality_only: bool = False,
    large: int = 0,
    languages: bool = False,
) -> Report:
    from benchmarks.recall.chats import read_sets
    from benchmarks.recall.run import run, run_quality

    sets = read_sets(data or [])
    if quality_only:
        return _run(lambda show: run_quality(sets, languages=languages, show=show))
    sizes = replace(QUICK_RECALL if quick else RecallSizes(), large=large)
    return _run(lambda show: run(sizes, data=sets, languages=languages, postgres=postgres, show=show))


def _run_guards(pii: Path | None, injection: Path | None) -> Report:
    from benchmarks.guards.run import run

    return _run(lambda show: run(pii, injection, show=show))


def _run_runtime(*, quick: bool) -> Report:
    from benchmarks.runtime import run

    return _run(lambda show: run(QUICK_RUNTIME if quick else RuntimeSizes(), show=show))


def _run(start: Callable[[Show], Coroutine[Any, Any, Report]]) -> Report:
    """Run a benchmark and show its progress."""
    with progress_bar() as show:
        return asyncio.run(start(show))
