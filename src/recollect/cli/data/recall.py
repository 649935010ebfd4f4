"""`recollect recall`: what memory finds for a question, and why."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.data.embedders import EmbedderName, find_embedder
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
from recollect.recall.settings import DEFAULT_THRESHOLD, RecallSettings
from recollect.scope import DEFAULT_THREAD, UNSET, Scope
from recollect.storage.opening import StoreHandle

if TYPE_CHECKING:
    from rich.text import Text

    from recollect.recall.results import Hit, Recall

Question = Annotated[str, typer.Argument(help="What to look for.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", help="The maximum number of messages.")]
InThread = Annotated[str | None, typer.Option("--thread", help="Search one thread alone.")]
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
    thread: InThread = None,
    app: App = "default",
    project: Project = "default",
    top_k: TopK = 4,
    threshold: Threshold = DEFAULT_THRESHOLD,
    text_only: TextOnly = False,
    embedder: EmbedderName = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Search what was said with a user, over all threads, and show the best matches."""
    settings = RecallSettings(top_k, threshold, "resource" if thread is None else "thread", 0)
    scope = Scope(choose_tenant(tenant, system=system), user, thread or DEFAULT_THREAD, app, project)
    place = require_database(store)
    chosen = UNSET if embedder is None else find_embedder(embedder)
    found = asyncio.run(
        _search(place, question, settings, scope, embedder=None if text_only else chosen, explain=explain)
    )
    if json:
        write_json(found.to_dict())
    else:
        _show(found)


async def _search(
    url: str, question: str, settings: "RecallSettings", scope: Scope, *, embedder: object, explain: bool
) -> "Recall":
    from recollect.recall.embedding.embedder import choose_embedder
    from recollect.recall.recaller import Recaller

    handle = StoreHandle(url)
    recaller = Recaller(handle, choose_embedder(embedder))
    try:
        return await recaller.search(question, settings, scope=scope, explain=explain)
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
    message = hit.message
    lines.append(
        f"{message.created_at:%Y-%m-%d %H:%M} {make_printable(message.thread_id or '')} ", style="dim"
    )
    lines.append(f"{message.role}: ", style="bold")
    lines.append(make_printable(hit.text) + "\n")
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
