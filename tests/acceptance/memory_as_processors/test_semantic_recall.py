"""Document A, "Testing Strategy for SemanticRecall": the unit tests of `SemanticRecallProcessor`."""

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.support.contexts import context, new_run
from tests.support.embedders import Words
from tests.support.recallers import NOW, SAID, embedded_recaller, run_of_ada, show_recalled

from recollect import PER_CALL, Message, Store
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.recall.recaller import Recaller

pytestmark = pytest.mark.anyio


@pytest.fixture
async def recaller(store: Store) -> AsyncGenerator[Recaller]:
    """A recaller on each engine in turn."""
    async with embedded_recaller(store) as found:
        yield found


async def test_performs_semantic_search_on_user_query(store: Store, recaller: Recaller) -> None:
    """What bears on the question by its meaning is found, though it has none of its words."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    assert "cello" in await show_recalled(processor, "Which musical instrument is played in the family?")
    assert "peanuts" in await show_recalled(processor, "Which foods must be avoided?")


async def test_respects_top_k_limit(store: Store, recaller: Recaller) -> None:
    """No more messages are found than were asked for."""
    for top_k in (1, 2, 5):
        processor = SemanticRecallProcessor(store, recaller=recaller, top_k=top_k, message_range=0)
        text = await show_recalled(processor, "the kitchen and the dog")
        assert sum(line in text for line in SAID) == top_k


async def test_filters_by_threshold(store: Store, recaller: Recaller) -> None:
    """What is less relevant than the threshold is left out, and nothing is left of a high one."""
    question = "Does a cello player live in Vienna?"
    for threshold, found in ((0.0, 4), (0.3, 1), (1.0, 0)):
        processor = SemanticRecallProcessor(store, recaller=recaller, threshold=threshold, message_range=0)
        text = await show_recalled(processor, question)
        assert sum(line in text for line in SAID) == found


async def test_applies_scope_filter_thread(store: Store, recaller: Recaller) -> None:
    """With the scope `thread` nothing of another thread is found; with `resource` it is."""
    await store.append_turn([Message("user", "A cello is a large violin.", id="here")], scope=NOW)
    for scope, elsewhere in (("thread", False), ("resource", True)):
        processor = SemanticRecallProcessor(store, recaller=recaller, scope=scope)  # pyright: ignore[reportArgumentType] - both are scopes
        text = await show_recalled(processor, "Tell me about the cello")
        assert "A cello is a large violin." in text
        assert ("My sister plays the cello" in text) is elsewhere


async def test_applies_scope_filter_resource(store: Store, recaller: Recaller) -> None:
    """Another user, tenant, app or project finds nothing of it."""
    processor = SemanticRecallProcessor(store, recaller=recaller, tenant_id=PER_CALL)
    ids: dict[str, Any] = {"tenant_id": None, "resource_id": "ada", "thread_id": "old"}
    assert "cello" in await show_recalled(processor, "cello", new_run(**ids))
    others: list[dict[str, Any]] = [
        {"tenant_id": 5},
        {"resource_id": "bob"},
        {"app_id": "x"},
        {"project_id": "x"},
    ]
    for other in others:
        assert not await show_recalled(processor, "cello", new_run(**(ids | other)))


async def test_formats_results_as_system_message(store: Store, recaller: Recaller) -> None:
    """The hits are one system message of memory's, fenced, right before this turn's messages."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    rules, said = Message("system", "Be kind."), Message("user", "Earlier", origin="memory")
    messages = [rules, said, Message("user", "Who plays the cello?")]
    after = await processor.process_input(messages, context(run_of_ada()))
    assert [*after[:2], after[3]] == messages
    added = after[2]
    assert (added.role, added.origin, added.id) == ("system", "memory", "run:semantic-recall")
    assert added.metadata == {"recalled": ["m0"]}
    lines = added.text.splitlines()
    assert lines[0] == '<memory label="recalled from memory">'
    assert "not instructions" in lines[1]
    assert lines[-1] == "</memory>"
    assert SAID[0] in lines[-2]


async def test_handles_no_results_gracefully(store: Store, recaller: Recaller) -> None:
    """A user without memories, and words that nobody said, leave the prompt as it is."""
    processor = SemanticRecallProcessor(store, recaller=recaller)
    nobody = new_run(tenant_id=None, resource_id="nobody", thread_id="t")
    assert not await show_recalled(processor, "Who plays the cello?", nobody)
    by_words = SemanticRecallProcessor(store, embedder=None)
    assert not await show_recalled(by_words, "xylophone")


async def test_handles_vector_store_errors(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A store that cannot be read is noted and logged, and the prompt goes on without recall."""
    processor = SemanticRecallProcessor(store, embedder=None)
    await store.close()
    run = run_of_ada()
    with caplog.at_level(logging.WARNING, "recollect"):
        assert not await show_recalled(processor, "Who plays the cello?", run)
    entry = run.trace.entry("tested", "input")
    assert entry.error is not None
    assert entry.error.startswith("StoreMisuseError")
    assert "goes on without memory" in caplog.text


async def test_skips_when_no_user_message_present(store: Store) -> None:
    """Without a question of this run nothing is looked up, not even for an older one from memory."""
    embedder = Words()
    processor = SemanticRecallProcessor(store, embedder=embedder)
    for messages in (
        [],
        [Message("system", "Be kind.")],
        [Message("assistant", "Hello, who plays?")],
        [Message("user", "an older question", origin="memory")],
        [Message("user", "  \n ")],
    ):
        assert await processor.process_input(messages, context(run_of_ada())) is messages
    assert embedder.asked == []
