"""`recollect reindex`: embeds all messages again after a change of embedder."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.data.embedders import EmbedderName, find_embedder
from recollect.cli.options import Json, StoreUrl, System, Tenant, choose_tenant, require_database
from recollect.cli.output import message_bar, write_json, write_lines
from recollect.storage.opening import open_store

if TYPE_CHECKING:
    from recollect.recall.embedding.indexer import Progress, ReindexResult

Someone = Annotated[str | None, typer.Option("--user", help="One user; without it all users of the tenant.")]


def reindex(  # noqa: PLR0917 - one for each option
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    user: Someone = None,
    embedder: EmbedderName = None,
    json: Json = False,
) -> None:
    """Embed all messages with the current embedder, except those that already have its vectors.

    You can stop it and run it again; it continues where it stopped.
    """
    owner, found = choose_tenant(tenant, system=system), require_database(store)
    with message_bar() as show:
        done = asyncio.run(_reindex(found, owner, user, embedder, show))
    if json:
        write_json({"users": done.users, "messages": done.messages})
    else:
        write_lines(f"Embedded {done.messages:,} messages of {done.users:,} users.")


async def _reindex(
    url: str, tenant: str | None, user: str | None, model: str | None, show: "Progress"
) -> "ReindexResult":
    from recollect.recall.embedding.embedder import as_embedder, default_embedder
    from recollect.recall.embedding.indexer import reindex, users_of

    embedder = default_embedder() if model is None else as_embedder(find_embedder(model))
    async with open_store(url) as store:
        users = [user] if user is not None else await users_of(store, tenant)
        return await reindex(store, embedder, users, tenant_id=tenant, show=show)
