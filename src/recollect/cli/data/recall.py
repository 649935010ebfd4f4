"""`recollect recall`: what memory finds for a question, and why."""

import asyncio
from contextlib import suppress
from functools import partial
from json import loads
from typing import TYPE_CHECKING, Annotated, cast

import typer

from recollect.cli.data.embedders import EmbedderName, find_embedder
from recollect.cli.data.vectors import finish_vectors
from recollect.cli.options import (
    App,
    Json,
    Project,
    StoreUrl,
    System,
    Tenant,
    User,
    choose_tenant,
    require_database,
)
from recollect.cli.output import make_console, make_printable, write_json
from recollect.errors import EmbedderError, InvalidArgumentError, MissingExtraError
from recollect.recall.settings import DEFAULT_THRESHOLD, RecallSettings
from recollect.scope import DEFAULT_THREAD, UNSET, Scope
from recollect.storage.opening import StoreHandle
from recollect.validation import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from recollect.messages import Message
    from recollect.recall.filters import RecallFilter
    from recollect.recall.results import Hit, Recall
    from recollect.validation import Scalar

Question = Annotated[str, typer.Argument(help="What to look for.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", help="The maximum number of messages.")]
Threads = Annotated[
    list[str] | None, typer.Option("--thread", help="Search this thread alone; may be given several times.")
]
Role = Annotated[
    str | None,
    typer.Option("--role", help="Find only what this side said: user or assistant.", metavar="ROLE"),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after",
        help="Find only what was said from then on: an ISO date or time, in UTC if it names no zone.",
        metavar="TIME",
    ),
]
Before = Annotated[
    str | None, typer.Option("--before", help="Find only what was said before then.", metavar="TIME")
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        help="Find only messages with this value; may be given several times. true, null, numbers and texts "
        "in double quotes are read as JSON, anything else is a text.",
        metavar="KEY=VALUE",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="Search as at that time: later messages are not there.", metavar="TIME"),
]
Context = Annotated[
    int, typer.Option("--context", "-C", help="How many messages to show before and after each match.")
]
Threshold = Annotated[float, typer.Option("--threshold", help="The minimum relevance, from 0 to 1.")]
TextOnly = Annotated[bool, typer.Option("--text-only", help="Search by words, without the embedder.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say why each message was found, and which just missed.")
]


def recall(  # noqa: PLR0913, PLR0917 - one for each option
    question: Question,
    user: User,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    thread: Threads = None,
    role: Role = None,
    after: After = None,
    before: Before = None,
    metadata: Metadata = None,
    as_of: AsOf = None,
    app: App = "default",
    project: Project = "default",
    top_k: TopK = 4,
    threshold: Threshold = DEFAULT_THRESHOLD,
    context: Context = 0,
    text_only: TextOnly = False,
    embedder: EmbedderName = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Search what was said with a user, over all threads, and show the best matches."""
    from recollect.recall.filters import RecallFilter, Speaker

    settings = RecallSettings(top_k, threshold, message_range=context)
    filters = RecallFilter(
        role=cast("Speaker | None", role),
        thread_ids=thread or None,
        after=_parse_time(after, "after"),
        before=_parse_time(before, "before"),
        metadata=_parse_metadata(metadata or []),
        as_of=_parse_time(as_of, "as_of"),
    )
    scope = Scope(choose_tenant(tenant, system=system), user, DEFAULT_THREAD, app, project)
    chosen = UNSET if embedder is None else find_embedder(embedder)
    search = partial(_search, require_database(store), question, settings, filters, scope)
    found = asyncio.run(search(embedder=None if text_only else chosen, explain=explain))
    if json:
        write_json(found.to_dict())
    else:
        _show(found)


def _parse_time(text: str | None, name: str) -> "datetime | None":
    return None if text is None else parse_time(text, name)


def _parse_metadata(given: list[str]) -> dict[str, "Scalar"]:
    """Read KEY=VALUE: the value is JSON if it can be, and else a text."""
    found: dict[str, Scalar] = {}
    for item in given:
        key, sign, text = item.partition("=")
        if not sign:
            raise InvalidArgumentError("metadata", f"must look like KEY=VALUE, not {item!r:.60}")
        if key in found:
            raise InvalidArgumentError("metadata", f"has {key!r:.60} twice; one message has one value")
        try:
            found[key] = loads(text, parse_constant=str)
        except (ValueError, RecursionError):
            found[key] = text
    return found


async def _search(
    url: str,
    question: str,
    settings: "RecallSettings",
    filters: "RecallFilter",
    scope: Scope,
    *,
    embedder: object,
    explain: bool,
) -> "Recall":
    from recollect.recall.embedding.embedder import choose_embedder
    from recollect.recall.recaller import Recaller

    handle = StoreHandle(url)
    recaller = Recaller(handle, choose_embedder(embedder))
    try:
        with suppress(EmbedderError, MissingExtraError):  # the search says what is wrong
            await finish_vectors(recaller, scope, await handle.get())
        return await recaller.search(question, settings, scope=scope, explain=explain, filters=filters)
    finally:
        await recaller.close()
        await handle.close()


def _show(found: "Recall") -> None:
    from rich.text import Text

    lines = Text()
    for note in found.notes:
        lines.append(f"{make_printable(note)}\n", style="yellow")
    if not len(found):
        lines.append("Nothing found.\n")
    for hit in found:
        _show_hit(lines, hit)
    if found.misses:
        lines.append("Just missed:\n", style="bold")
    for miss in found.misses:
        lines.append(f"  {make_printable(miss.message_id)}: {miss.reason} ({miss.score:.2f})\n", style="dim")
    make_console().print(lines, end="")


def _show_hit(lines: "Text", hit: "Hit") -> None:
    for message in hit.before:
        _show_context(lines, message)
    message = hit.message
    lines.append(
        f"{message.created_at:%Y-%m-%d %H:%M} {make_printable(message.thread_id or '')} ", style="dim"
    )
    lines.append(f"{message.role}: ", style="bold")
    lines.append(make_printable(hit.text) + "\n")
    for message in hit.after:
        _show_context(lines, message)
    lines.append(f"  relevance {hit.relevance:.2f}, score {hit.score:.2f}\n", style="dim")
    if hit.why is None:
        return
    why = hit.why
    text = "none" if why.text_rank is None else f"{why.text_score:.2f} (rank {why.text_rank})"
    vector = "none" if why.vector_score is None else f"{why.vector_score:.3f} (rank {why.vector_rank})"
    lines.append(f"  text {text}, vector {vector}\n", style="dim")
    parts = ", ".join(f"{name} {value:+.2f}" for name, value in why.parts.items() if value)
    lines.append(f"  score = {parts}\n", style="dim")
    lines.append(f"  matched: {', '.join(why.matched_terms) or 'no word'}\n", style="dim")


def _show_context(lines: "Text", message: "Message") -> None:
    said = f"{message.role}: {make_printable(message.text)}"
    lines.append(f"  context {message.created_at:%Y-%m-%d %H:%M} {said}\n", style="dim")
