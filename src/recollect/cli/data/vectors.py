"""Finishing the vectors of a user's messages: a command ends before the background could write them."""

from typing import TYPE_CHECKING

from recollect.cli.output import message_bar, say

if TYPE_CHECKING:
    from recollect.recall.recaller import Recaller
    from recollect.scope import Scope
    from recollect.storage.store import Store

_FEW = 32  # so many are embedded before anybody would look at a bar


async def finish_vectors(recaller: "Recaller", scope: "Scope", store: "Store") -> None:
    """Embed the user's messages that have no vector yet; of more than a few, show how far it is."""
    waiting = (await recaller.count_backlog(scope)).vectors
    if not waiting:
        return
    recaller.schedule_indexing(scope, store)
    if waiting <= _FEW:
        await recaller.wait_until_idle()
        return
    say("Embedding messages that have no vectors yet; if you stop it, `recollect reindex` goes on.")
    with message_bar() as show:
        await recaller.wait_until_idle(show)
