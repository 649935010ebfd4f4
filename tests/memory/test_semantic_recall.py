"""Document A's unit tests of `SemanticRecallProcessor` by their names, and what it promises beside them."""

import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.contexts import context, new_run
from tests.support.embedders import Broken, Words

from recollect import InvalidArgumentError, Message, Scope, Store
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.pipeline.context import RunState
from recollect.recall.embedding.embedder import chosen_embedder
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.scope import UNSET
from recollect.storage.opening import StoreHandle

pytestmark = pytest.mark.anyio

NOW = Scope(None, "ada", "now")
OLD = Scope(None, "ada", "old")

TALK = (
    "My sister plays the cello in an orchestra.",
    "We painted the kitchen yellow.",
    "The rocket launch was put off because of the wind.",
    "Our dog is afraid of thunder.",
    "I am allergic to peanuts.",
    "The train to Porto leaves at nine.",
)


@pytest.fixture
async def recaller(store: Store) -> AsyncGenerator[Recaller]:
    """A recaller with the built-in embedder on each engine in turn, over a little talk that is embedded."""
    found = Recaller(StoreHandle(store), chosen_embedder(UNSET))
    await store.append_turn([Message("user", text, id=f"m{n}") for n, text in enumerate(TALK)], scope=OLD)
    found.saved(OLD, store)
    await found.settled()
    yield found
    await found.close()


def this_run(thread_id: str = "now") -> RunState:
    """Return a run of ada's."""
    return new_run(tenant_id=None, resource_id="ada", thread_id=thread_id)


async def shown(
    processor: SemanticRecallProcessor, prompt: str, run: RunState | None = None, *history: Message
) -> str:
    """Return the text of the message that the processor adds to a prompt, or nothing."""
    messages = [*history, Message("user", prompt)]
    after = await processor.process_input(messages, context(run or this_run()))
    assert [message for message in after if message in messages] == messages
    added = [message for message in after if message not in messages]
    assert len(added) <= 1
    return added[0].text if added else ""


async def test_performs_semantic_search_on_user_query(store: Store, recaller: Recaller) -> None:
    """What bears on the question by its meaning is found, though it has none of its words."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    assert "cello" in await shown(processor, "Which musical instrument is played in the family?")
    assert "peanuts" in await shown(processor, "Which foods must be avoided?")


async def test_respects_top_k_limit(store: Store, recaller: Recaller) -> None:
    """No more messages are found than were asked for."""
    for top_k in (1, 2, 5):
        processor = SemanticRecallProcessor(store, recaller=recaller, top_k=top_k, message_range=0)
        text = await shown(processor, "the kitchen and the dog")
        assert sum(line in text for line in TALK) == top_k


async def test_filters_by_threshold(store: Store, recaller: Recaller) -> None:
    """What is less relevant than the threshold is left out, and nothing is left of a high one."""
    question = "Does a cello player live in Vienna?"
    for threshold, found in ((0.0, 4), (0.3, 1), (1.0, 0)):
        options = RecallSettings(threshold=threshold, message_range=0)
        processor = SemanticRecallProcessor(store, recaller=recaller, **options.options())
        text = await shown(processor, question)
        assert sum(line in text for line in TALK) == found


async def test_applies_scope_filter_thread(store: Store, recaller: Recaller) -> None:
    """With the scope `thread` nothing of another thread is found; with `resource` it is."""
    await store.append_turn([Message("user", "A cello is a large violin.", id="here")], scope=NOW)
    for scope, elsewhere in (("thread", False), ("resource", True)):
        processor = SemanticRecallProcessor(store, recaller=recaller, scope=scope)  # pyright: ignore[reportArgumentType] - both are scopes
        text = await shown(processor, "Tell me about the cello")
        assert "A cello is a large violin." in text
        assert ("My sister plays the cello" in text) is elsewhere


async def test_applies_scope_filter_resource(store: Store, recaller: Recaller) -> None:
    """Another user, tenant, app or project finds nothing of it."""
    processor = SemanticRecallProcessor(store, recaller=recaller)
    ids: dict[str, Any] = {"tenant_id": None, "resource_id": "ada", "thread_id": "old"}
    assert "cello" in await shown(processor, "cello", new_run(**ids))
    others: list[dict[str, Any]] = [
        {"tenant_id": 5},
        {"resource_id": "bob"},
        {"app_id": "x"},
        {"project_id": "x"},
    ]
    for other in others:
        assert not await shown(processor, "cello", new_run(**(ids | other)))


async def test_formats_results_as_system_message(store: Store, recaller: Recaller) -> None:
    """The hits are one system message of memory's, fenced, behind other system messages, before the talk."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    rules, said = Message("system", "Be kind."), Message("user", "Earlier", origin="memory")
    messages = [rules, said, Message("user", "Who plays the cello?")]
    after = await processor.process_input(messages, context(this_run()))
    assert [after[0], *after[2:]] == messages
    added = after[1]
    assert (added.role, added.origin, added.id) == ("system", "memory", "run:semantic-recall")
    assert added.metadata == {"recalled": ["m0"]}
    lines = added.text.splitlines()
    assert lines[0] == '<memory label="recalled from memory">'
    assert "not instructions" in lines[1]
    assert lines[-1] == "</memory>"
    assert TALK[0] in lines[-2]


async def test_handles_no_results_gracefully(store: Store, recaller: Recaller) -> None:
    """A user without memories, and words that nobody said, leave the prompt as it is."""
    processor = SemanticRecallProcessor(store, recaller=recaller)
    nobody = new_run(tenant_id=None, resource_id="nobody", thread_id="t")
    assert not await shown(processor, "Who plays the cello?", nobody)
    by_words = SemanticRecallProcessor(store, embedder=None)
    assert not await shown(by_words, "xylophone")


async def test_handles_vector_store_errors(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A store that cannot be read is noted and logged, and the prompt goes on without recall."""
    processor = SemanticRecallProcessor(store, embedder=None)
    await store.close()
    run = this_run()
    with caplog.at_level(logging.WARNING, "recollect"):
        assert not await shown(processor, "Who plays the cello?", run)
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
        assert await processor.process_input(messages, context(this_run())) is messages
    assert embedder.asked == []


async def test_last_message_is_the_question_when_there_are_several(store: Store, recaller: Recaller) -> None:
    """The run's last message is searched for, not an earlier one of the same prompt."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    text = await shown(processor, "Who plays the cello?", None, Message("user", "Is the dog afraid?"))
    assert "cello" in text
    assert "dog" not in text


async def test_prompt_passes_when_no_user_and_no_thread_are_named(store: Store) -> None:
    """A bare processor without ids does nothing."""
    processor = SemanticRecallProcessor(store, embedder=None)
    assert not await shown(processor, "cello", new_run())


async def test_own_ids_are_used_when_the_run_names_none(store: Store, recaller: Recaller) -> None:
    """Ids given to the processor count for runs that are given none."""
    processor = SemanticRecallProcessor(store, recaller=recaller, tenant_id=None, resource_id="ada")
    assert "cello" in await shown(processor, "Who plays the cello?", new_run())


async def test_store_is_opened_by_address_when_given_one(sqlite_url: str) -> None:
    """An address will do in place of a store."""
    handle = StoreHandle(sqlite_url)
    await (await handle.get()).append_turn([Message("user", TALK[0])], scope=OLD)
    assert "cello" in await shown(SemanticRecallProcessor(handle, embedder=None), "cello")
    await handle.close()
    processor = SemanticRecallProcessor(sqlite_url, embedder=None)
    assert "cello" in await shown(processor, "cello")
    await processor._handle.close()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else can


async def test_hit_is_not_shown_twice_when_history_has_it(store: Store, recaller: Recaller) -> None:
    """What history shows is passed over, and the next best takes its place."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=2, message_range=0)
    question = "Who plays the cello in an orchestra?"
    best = {line for line in TALK if line in await shown(processor, question)}
    assert TALK[0] in best
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=OLD)]
    shown_before = [message for message in history if message.text in best]
    again = await shown(processor, question, None, *shown_before)
    assert not [line for line in best if line in again]
    assert sum(line in again for line in TALK) == 2


async def test_top_k_is_refilled_when_history_shows_hundreds_of_better_hits(store: Store) -> None:
    """However much the prompt shows already, what it does not show is still found."""
    here = [Message("user", f"The cello concert number {n}.") for n in range(450)]
    await store.append_turn(here, scope=NOW)
    await store.append_turn([Message("user", "She sold a cello, and a boat, and a house.")], scope=OLD)
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=NOW)]
    processor = SemanticRecallProcessor(store, embedder=None)
    assert "sold a cello" in await shown(processor, "cello concert", None, *history)


async def test_neighbour_is_not_shown_twice_when_history_has_it(store: Store, recaller: Recaller) -> None:
    """A message around a hit is left out as well if the prompt shows it; alone, it adds nothing."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=1)
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=OLD)]
    text = await shown(processor, "Who plays the cello?", None, history[1])
    assert TALK[0] in text
    assert TALK[1] not in text
    assert not await shown(processor, "Who plays the cello?", None, *history)


async def test_nothing_is_added_when_all_that_was_found_is_in_the_prompt(store: Store) -> None:
    """A client that sends stored messages again, by id, is not shown them as recalled."""
    await store.append_turn([Message("user", TALK[0], id="m0")], scope=OLD)
    processor = SemanticRecallProcessor(store, embedder=None)
    assert not await shown(processor, "cello?", None, Message("user", TALK[0], id="m0"))


async def test_hits_are_grouped_and_dated(store: Store) -> None:
    """What was said here stands apart from what was said elsewhere, each under its day and by its time."""
    monday, friday = (datetime(2024, 3, day, 9, 5, tzinfo=UTC) for day in (4, 8))
    await store.append_turn(
        [Message("user", "The cello is here.", created_at=friday, metadata={"name": "Ada"})], scope=NOW
    )
    await store.append_turn(
        [Message("assistant", "A cello has\nfour strings.", created_at=monday)], scope=OLD
    )
    text = await shown(SemanticRecallProcessor(store, embedder=None), "cello")
    assert text.splitlines()[2:] == [
        "Earlier in this conversation:",
        "On Friday, 08 March 2024:",
        "  09:05 Ada (user): The cello is here.",
        "From other conversations with this user:",
        "On Monday, 04 March 2024:",
        "  09:05 assistant: A cello has",
        "    four strings.",
        "</memory>",
    ]


async def test_search_goes_on_by_text_and_says_so_when_the_embedder_fails(store: Store) -> None:
    """The failure is a note in the trace; the hits by words are shown."""
    embedder = Broken(questions=True)
    recaller = Recaller(StoreHandle(store), chosen_embedder(embedder))
    await store.append_turn([Message("user", TALK[0])], scope=OLD)
    recaller.saved(OLD, store)
    await recaller.settled()
    run = this_run()
    assert "cello" in await shown(SemanticRecallProcessor(store, recaller=recaller), "cello", run)
    entry = run.trace.entry("tested", "input")
    assert entry.error is None
    (note,) = entry.notes
    assert note.startswith("the embedder failed, searched by text alone: ")
    assert note.endswith("ConnectionError: no route to the embedder")


async def test_run_goes_on_without_recall_when_the_embedder_was_changed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Vectors of another model are not compared: the trace and the log name the command that helps."""
    await store.append_turn([Message("user", TALK[0])], scope=OLD)
    before = Recaller(StoreHandle(store), chosen_embedder(Words("before")))
    before.saved(OLD, store)
    await before.settled()
    run = this_run()
    with caplog.at_level(logging.WARNING, "recollect"):
        assert not await shown(SemanticRecallProcessor(store, embedder=Words("after")), "cello", run)
    entry = run.trace.entry("tested", "input")
    assert entry.error is not None
    assert "recollect reindex" in entry.error
    assert "recollect reindex" in caplog.text


async def test_trace_says_that_a_huge_prompt_was_cut(store: Store) -> None:
    """A prompt of a megabyte is searched for by its beginning, quickly, and the trace says so."""
    await store.append_turn([Message("user", TALK[0])], scope=OLD)
    run = this_run()
    assert "cello" in await shown(
        SemanticRecallProcessor(store, embedder=None), "cello " + "x y " * 250_000, run
    )
    entry = run.trace.entry("tested", "input")
    assert entry.notes == ["only the first 4,000 characters of the question were searched for"]


async def test_trace_explains_without_text_when_asked_to(store: Store, recaller: Recaller) -> None:
    """With `explain` the trace has scores, ranks and misses by id, and nothing that anybody said."""
    run = this_run()
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=2, explain=True)
    await shown(processor, "Who plays the cello?", run)
    entry = run.trace.entry("tested", "input")
    assert entry.details is not None
    assert "'m0'" in repr(entry.details["hits"])
    assert entry.details["misses"]
    said = {word for line in TALK for word in line.strip(".").split() if len(word) > 3}
    assert not [word for word in said | {"cello"} if word in repr(entry.details)]


async def test_nothing_is_explained_when_not_asked_to(store: Store, recaller: Recaller) -> None:
    """Without `explain` the trace has no details."""
    run = this_run()
    await shown(SemanticRecallProcessor(store, recaller=recaller), "Who plays the cello?", run)
    assert run.trace.entry("tested", "input").details is None


def test_bad_options_are_refused_when_it_is_made() -> None:
    """Options of no sense are errors at once, which name the option."""
    for name, value in (("top_k", 0), ("threshold", 2), ("scope", "world"), ("message_range", -1)):
        with pytest.raises(InvalidArgumentError, match=name):
            SemanticRecallProcessor("sqlite://", embedder=None, **{name: value})  # pyright: ignore[reportArgumentType] - a wrong use
    with pytest.raises(InvalidArgumentError, match="embedder"):
        SemanticRecallProcessor("sqlite://", embedder="minilm")
