"""`SemanticRecallProcessor` by itself: what it asks, what it leaves out, and how it degrades."""

import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
from tests.support.contexts import context, new_run
from tests.support.embedders import Broken, Words
from tests.support.recallers import NOW, OLD, SAID, embedded_recaller, run_of_ada, show_recalled

from recollect import Agent, InvalidArgumentError, Message, Store
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.recall.embedding.embedder import choose_embedder
from recollect.recall.recaller import Recaller
from recollect.storage.opening import StoreHandle

pytestmark = pytest.mark.anyio


@pytest.fixture
async def recaller(store: Store) -> AsyncGenerator[Recaller]:
    """A recaller on each engine in turn."""
    async with embedded_recaller(store) as found:
        yield found


async def test_last_message_is_the_question_when_there_are_several(store: Store, recaller: Recaller) -> None:
    """The run's last message is searched for, not an earlier one of the same prompt."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    text = await show_recalled(processor, "Who plays the cello?", None, Message("user", "Is the dog afraid?"))
    assert "cello" in text
    assert "dog" not in text


async def test_two_of_them_show_nothing_twice_when_they_have_ids(store: Store, recaller: Recaller) -> None:
    """Each has its own options and its own message; what the first has shown the second leaves out."""
    run, prompt = context(run_of_ada()), [Message("user", "Who plays the cello?")]
    narrow = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=0)
    wide = SemanticRecallProcessor(store, recaller=recaller, top_k=3, message_range=0, id="wide")
    Agent("offline", input_processors=[narrow, wide])
    first, second, _ = await wide.process_input(await narrow.process_input(prompt, run), run)
    assert (first.id, second.id) == ("run:semantic-recall", "run:wide")
    assert "cello" in first.text
    assert "cello" not in second.text


async def test_nothing_is_searched_when_the_last_message_of_the_user_is_old(store: Store) -> None:
    """A run that brings no words of the user's own has no question; what memory shows is none."""
    embedder = Words()
    messages = [Message("user", "Who plays?", origin="memory"), Message("assistant", "Hello")]
    processor = SemanticRecallProcessor(store, embedder=embedder)
    assert await processor.process_input(messages, context(run_of_ada())) is messages
    assert embedder.asked == []


async def test_prompt_passes_when_no_user_and_no_thread_are_named(store: Store) -> None:
    """A bare processor without ids does nothing."""
    processor = SemanticRecallProcessor(store, embedder=None)
    assert not await show_recalled(processor, "cello", new_run())


async def test_own_ids_are_used_when_the_run_names_none(store: Store, recaller: Recaller) -> None:
    """Ids given to the processor count for runs that are given none."""
    processor = SemanticRecallProcessor(store, recaller=recaller, tenant_id=None, resource_id="ada")
    assert "cello" in await show_recalled(processor, "Who plays the cello?", new_run())


async def test_store_is_opened_by_url_when_given_one(sqlite_url: str) -> None:
    """A URL works in place of a store."""
    handle = StoreHandle(sqlite_url)
    await (await handle.get()).append_turn([Message("user", SAID[0])], scope=OLD)
    assert "cello" in await show_recalled(SemanticRecallProcessor(handle, embedder=None), "cello")
    await handle.close()
    processor = SemanticRecallProcessor(sqlite_url, embedder=None)
    assert "cello" in await show_recalled(processor, "cello")
    await processor._handle.close()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else can


async def test_hit_is_not_shown_twice_when_history_has_it(store: Store, recaller: Recaller) -> None:
    """What history shows is passed over, and the next best takes its place."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=2, message_range=0, threshold=0)
    question = "Who plays the cello in an orchestra?"
    best = {line for line in SAID if line in await show_recalled(processor, question)}
    assert SAID[0] in best
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=OLD)]
    shown_before = [message for message in history if message.text in best]
    again = await show_recalled(processor, question, None, *shown_before)
    assert not [line for line in best if line in again]
    assert sum(line in again for line in SAID) == 2


async def test_top_k_is_refilled_when_history_shows_hundreds_of_better_hits(store: Store) -> None:
    """However much the prompt shows already, what it does not show is still found."""
    here = [Message("user", f"The cello concert number {n}.") for n in range(450)]
    await store.append_turn(here, scope=NOW)
    await store.append_turn([Message("user", "She sold a cello, and a boat, and a house.")], scope=OLD)
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=NOW)]
    processor = SemanticRecallProcessor(store, embedder=None)
    assert "sold a cello" in await show_recalled(processor, "cello concert", None, *history)


async def test_neighbour_is_not_shown_twice_when_history_has_it(store: Store, recaller: Recaller) -> None:
    """A message around a hit is left out as well if the prompt shows it; alone, it adds nothing."""
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=1, message_range=1)
    history = [m.replace(origin="memory") for m in await store.last_messages(None, scope=OLD)]
    text = await show_recalled(processor, "Who plays the cello?", None, history[1])
    assert SAID[0] in text
    assert SAID[1] not in text
    assert not await show_recalled(processor, "Who plays the cello?", None, *history)


async def test_nothing_is_added_when_all_that_was_found_is_in_the_prompt(store: Store) -> None:
    """A client that sends stored messages again, by id, is not shown them as recalled."""
    await store.append_turn([Message("user", SAID[0], id="m0")], scope=OLD)
    processor = SemanticRecallProcessor(store, embedder=None)
    assert not await show_recalled(processor, "cello?", None, Message("user", SAID[0], id="m0"))


async def test_hits_are_grouped_and_dated(store: Store) -> None:
    """What was said here stands apart from what was said elsewhere, each under its day and by its time."""
    monday, friday = (datetime(2024, 3, day, 9, 5, tzinfo=UTC) for day in (4, 8))
    await store.append_turn(
        [Message("user", "The cello is here.", created_at=friday, metadata={"name": "Ada"})], scope=NOW
    )
    await store.append_turn(
        [Message("assistant", "A cello has\nfour strings.", created_at=monday)], scope=OLD
    )
    text = await show_recalled(SemanticRecallProcessor(store, embedder=None), "cello")
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
    recaller = Recaller(StoreHandle(store), choose_embedder(embedder))
    await store.append_turn([Message("user", SAID[0])], scope=OLD)
    recaller.schedule_indexing(OLD, store)
    await recaller.wait_until_idle()
    run = run_of_ada()
    assert "cello" in await show_recalled(SemanticRecallProcessor(store, recaller=recaller), "cello", run)
    entry = run.trace.entry("tested", "input")
    assert entry.error is None
    (note,) = entry.notes
    assert note.startswith("the embedder failed, searched by text alone: ")
    assert note.endswith("ConnectionError: no route to the embedder")


async def test_run_goes_on_without_recall_when_the_embedder_was_changed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Vectors of another model are not compared: the trace and the log name the command that helps."""
    await store.append_turn([Message("user", SAID[0])], scope=OLD)
    before = Recaller(StoreHandle(store), choose_embedder(Words("before")))
    before.schedule_indexing(OLD, store)
    await before.wait_until_idle()
    run = run_of_ada()
    with caplog.at_level(logging.WARNING, "recollect"):
        assert not await show_recalled(SemanticRecallProcessor(store, embedder=Words("after")), "cello", run)
    entry = run.trace.entry("tested", "input")
    assert entry.error is not None
    assert "recollect reindex" in entry.error
    assert "recollect reindex" in caplog.text


async def test_trace_says_that_a_huge_prompt_was_cut(store: Store) -> None:
    """A prompt of a megabyte is searched for by its beginning, quickly, and the trace says so."""
    await store.append_turn([Message("user", SAID[0])], scope=OLD)
    run = run_of_ada()
    assert "cello" in await show_recalled(
        SemanticRecallProcessor(store, embedder=None, threshold=0), "cello " + "x y " * 250_000, run
    )
    entry = run.trace.entry("tested", "input")
    assert entry.notes == ["only the first 4,000 characters of the question were searched for"]


async def test_trace_explains_without_text_when_asked_to(store: Store, recaller: Recaller) -> None:
    """With `explain` the trace has scores, ranks and misses by id, and nothing that anybody said."""
    run = run_of_ada()
    processor = SemanticRecallProcessor(store, recaller=recaller, top_k=2, explain=True)
    await show_recalled(processor, "Who plays the cello?", run)
    entry = run.trace.entry("tested", "input")
    assert entry.details is not None
    assert "'m0'" in repr(entry.details["hits"])
    assert entry.details["misses"]
    said = {word for line in SAID for word in line.strip(".").split() if len(word) > 3}
    assert not [word for word in said | {"cello"} if word in repr(entry.details)]


async def test_nothing_is_explained_when_not_asked_to(store: Store, recaller: Recaller) -> None:
    """Without `explain` the trace has no details."""
    run = run_of_ada()
    await show_recalled(SemanticRecallProcessor(store, recaller=recaller), "Who plays the cello?", run)
    assert run.trace.entry("tested", "input").details is None


def test_bad_options_are_refused_when_it_is_made() -> None:
    """Options of no sense are errors at once, which name the option."""
    for name, value in (("top_k", 0), ("threshold", 2), ("scope", "world"), ("message_range", -1)):
        with pytest.raises(InvalidArgumentError, match=name):
            SemanticRecallProcessor("sqlite://", embedder=None, **{name: value})  # pyright: ignore[reportArgumentType] - a wrong use
    with pytest.raises(InvalidArgumentError, match="embedder"):
        SemanticRecallProcessor("sqlite://", embedder="minilm")


async def test_a_long_message_is_shown_by_the_part_that_fits(store: Store) -> None:
    """What is left out before and after the best part is marked."""
    filler = "It rained all day and nothing else happened there. " * 60
    await store.append_turn([Message("user", f"{filler}Rex the dog fears thunder. {filler}")], scope=OLD)
    processor = SemanticRecallProcessor(store, embedder=None, top_k=1, message_range=0)
    text = await show_recalled(processor, "What does Rex the dog fear?")
    assert "Rex the dog fears thunder." in text
    assert "user: … " in text
    assert text.rstrip().endswith(" …\n</memory>")
