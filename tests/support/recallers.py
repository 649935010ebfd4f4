"""A recaller over a few embedded messages, and what `SemanticRecallProcessor` makes of a prompt with it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.support.contexts import context, new_run

from recollect import Message, Scope, Store
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.pipeline.context import RunState
from recollect.recall.embedding.embedder import choose_embedder
from recollect.recall.recaller import Recaller
from recollect.scope import UNSET
from recollect.storage.opening import StoreHandle

NOW = Scope(None, "ada", "now")
"""The thread of the run."""

OLD = Scope(None, "ada", "old")
"""The thread in which `SAID` was said."""

SAID = (
    "My sister plays the cello in an orchestra.",
    "We painted the kitchen yellow.",
    "The rocket launch was put off because of the wind.",
    "Our dog is afraid of thunder.",
    "I am allergic to peanuts.",
    "The train to Porto leaves at nine.",
)


@asynccontextmanager
async def embedded_recaller(store: Store) -> AsyncGenerator[Recaller]:
    """Store and embed `SAID` with the built-in embedder, and yield the recaller."""
    recaller = Recaller(StoreHandle(store), choose_embedder(UNSET))
    await store.append_turn([Message("user", text, id=f"m{n}") for n, text in enumerate(SAID)], scope=OLD)
    recaller.schedule_indexing(OLD, store)
    await recaller.wait_until_idle()
    yield recaller
    await recaller.close()


def run_of_ada(thread_id: str = "now") -> RunState:
    """Return a run of ada's."""
    return new_run(tenant_id=None, resource_id="ada", thread_id=thread_id)


async def show_recalled(
    processor: SemanticRecallProcessor, prompt: str, run: RunState | None = None, *history: Message
) -> str:
    """Return the text of the message that the processor adds to a prompt, or nothing."""
    messages = [*history, Message("user", prompt)]
    after = await processor.process_input(messages, context(run or run_of_ada()))
    assert [message for message in after if message in messages] == messages
    added = [message for message in after if message not in messages]
    assert len(added) <= 1
    return added[0].text if added else ""
