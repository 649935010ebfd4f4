"""An embedder that hangs, fails, returns nonsense or was changed: search still works, and says why."""

import asyncio

import pytest
from tests.support.embedders import Broken, Hanging, Words, Wrong

from recollect import Agent, EmbedderError, InvalidArgumentError, Memory, Message, Scope, Store
from recollect.errors import EmbedderChangedError
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import index_messages, reindex
from recollect.recall.recaller import Recaller
from recollect.recall.settings import RecallSettings
from recollect.storage.opening import StoreHandle
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ADA = Scope(None, "ada", "default")
SAID = "The cello is in the attic."
NAN = float("nan")


def memory_of(store: Store, embedder: object, *, semantic_recall: bool = False) -> Memory:
    """Return ada's memory."""
    return Memory(
        store, tenant_id=None, resource_id="ada", embedder=embedder, semantic_recall=semantic_recall
    )


async def filled(store: Store, embedder: object | None = None, *texts: str) -> None:
    """Save messages and embed them."""
    async with memory_of(store, embedder or Words(), semantic_recall=True) as memory:
        for text in texts or (SAID,):
            await memory.add_message("user", text)
        await memory.settled()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([NAN] * 16, "NaN or infinity"),
        ([1.0] * 8, "8 dimensions, not 16"),
        ([[1.0] * 16, [1.0] * 16], "shape"),
        ([0.0] * 16, "zeros"),
        ("a vector", "not numbers"),
        ([], "shape"),
    ],
)
async def test_text_is_searched_when_the_vector_of_a_question_is_wrong(
    store: Store, answer: object, problem: str
) -> None:
    """A vector that cannot be compared is noted, and the message is found by its words."""
    await filled(store)
    async with memory_of(store, Wrong(question=answer)) as memory:
        found = await memory.query("cello", explain=True)
    assert [hit.text for hit in found] == [SAID]
    assert len(found.notes) == 1
    assert found.notes[0].startswith("the embedder failed, searched by text alone: ")
    assert problem in found.notes[0]
    why = found[0].why
    assert why is not None
    assert (why.vector_score, why.vector_rank) == (None, None)


@pytest.mark.parametrize("answer", [[[NAN] * 16], [[1.0] * 8], [[1.0] * 16] * 2, [], None, "x"])
async def test_message_is_found_by_words_when_its_own_vector_is_wrong(store: Store, answer: object) -> None:
    """No wrong vector is stored; `settled` raises the error."""
    embedder = Wrong(documents="none" if answer is None else answer)
    async with memory_of(store, embedder, semantic_recall=True) as memory:
        await memory.add_message("user", SAID)
        with pytest.raises(EmbedderError, match="the embedder 'words' gave"):
            await memory.settled()
        assert [hit.text for hit in await memory.query("cello")] == [SAID]
    assert (await store.search_rows(scope=ADA)).vectors == []


async def test_text_is_searched_within_the_deadline_when_the_embedder_hangs(store: Store) -> None:
    """The search waits no longer than its limit, and notes why it has no vectors."""
    await filled(store)
    recaller = Recaller(StoreHandle(store), as_embedder(Hanging()), embed_seconds=0.1)
    found = await recaller.search("cello", RecallSettings(), scope=ADA)
    assert [hit.text for hit in found] == [SAID]
    assert found.notes == ("the embedder took over 0.1 s: searched by text alone",)
    assert found.timings["embed_ms"] >= 90


async def test_searches_of_one_user_do_not_queue_up_when_the_embedder_hangs(sqlite_url: str) -> None:
    """Many concurrent searches end after one deadline, not after the sum of all."""
    handle = StoreHandle(sqlite_url)
    await filled(await handle.get())
    recaller = Recaller(handle, as_embedder(Hanging()), embed_seconds=0.5)
    searches = [recaller.search("cello", RecallSettings(), scope=ADA) for _ in range(80)]
    async with asyncio.timeout(len(searches) * 0.5 / 2):
        found = await asyncio.gather(*searches)
    assert all(len(hits) == 1 and hits.notes for hits in found)
    await handle.close()


async def test_text_is_searched_when_the_embedder_fails(store: Store) -> None:
    """The note has the error."""
    await filled(store)
    async with memory_of(store, Broken(questions=True)) as memory:
        found = await memory.query("cello")
    assert [hit.text for hit in found] == [SAID]
    assert "ConnectionError: no route to the embedder" in found.notes[0]


async def test_query_names_the_command_when_the_embedder_was_changed(store: Store) -> None:
    """Vectors of another model are an error that says what to run; afterwards it works."""
    await filled(store)
    async with memory_of(store, Words("new", 8)) as memory:
        with pytest.raises(EmbedderChangedError, match="recollect reindex"):
            await memory.query("cello")
        await reindex(store, as_embedder(Words("new", 8)), ["ada"], tenant_id=None, show=lambda _, __: None)
        found = await memory.query("cello", explain=True)
    assert found.notes == ()
    why = found[0].why
    assert why is not None
    assert why.vector_score is not None
    async with memory_of(store, Words()) as memory:
        with pytest.raises(EmbedderChangedError, match="'new'"):
            await memory.query("cello")


async def test_query_names_the_command_when_vectors_of_two_models_are_stored(store: Store) -> None:
    """A half re-embedded memory raises the error at every query, cold or warm."""
    await filled(store)
    async with memory_of(store, Words()) as warm:
        assert len(await warm.query("cello")) == 1
        await store.append_turn([Message("user", "A second cello stands in the hall.")], scope=ADA)
        waiting = await store.unindexed_messages("new", scope=ADA)
        assert len(waiting.messages) == 1
        await index_messages(as_embedder(Words("new")), waiting, ADA, store)
        for memory in (warm, memory_of(store, Words()), memory_of(store, Words("new"))):
            for _ in range(3):
                with pytest.raises(EmbedderChangedError, match="recollect reindex"):
                    await memory.query("cello")
            await memory.close()
    async with memory_of(store, None) as by_words:
        assert len(await by_words.query("cello")) >= 2
    await reindex(store, as_embedder(Words("new")), ["ada"], tenant_id=None, show=lambda _, __: None)
    async with memory_of(store, Words("new")) as memory:
        assert len(await memory.query("cello")) >= 2


async def test_going_back_helps_when_the_embedder_was_changed_by_mistake(store: Store) -> None:
    """The error offers to go back to the previous embedder, which must work even after a save."""
    await filled(store)
    async with memory_of(store, Words("new"), semantic_recall=True) as memory:
        await memory.add_message("user", "Another cello.")
        with pytest.raises(EmbedderChangedError):
            await memory.query("cello")
        with pytest.raises(EmbedderChangedError):
            await memory.settled()
    async with memory_of(store, Words()) as memory:
        assert len(await memory.query("cello")) == 2


async def test_changed_embedder_is_an_error_when_it_has_the_same_name_and_other_dimensions(
    store: Store,
) -> None:
    """A model that can give vectors of several lengths counts as another model with each."""
    await filled(store)
    async with memory_of(store, Words(dimensions=8)) as memory:
        with pytest.raises(EmbedderChangedError, match="recollect reindex"):
            await memory.query("cello")


async def test_answer_is_given_when_the_embedder_was_changed(store: Store) -> None:
    """A run continues without recall; the trace names the command."""
    await filled(store)
    async with memory_of(store, Words("new"), semantic_recall=True) as memory:
        result = await Agent(ScriptedModel("Hello."), memory=memory).generate("cello", thread_id="t")
    assert (result.text, result.saved) == ("Hello.", True)
    entry = result.trace.find("semantic-recall", "input")
    assert entry is not None
    assert "recollect reindex" in (entry.error or "")


async def test_good_messages_are_embedded_when_one_message_cannot_be(store: Store) -> None:
    """One text that the embedder rejects does not block the vectors of the others."""
    with pytest.raises(EmbedderError, match="rejected"):
        await filled(store, Picky(), "fine", "rejected", "also fine")
    assert len((await store.search_rows(scope=ADA)).vectors) == 2


class Picky(Words):
    """Fails for a certain text."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Fail if the text is among them."""
        if "rejected" in texts:
            raise ValueError("this text is rejected")
        return await super().embed_documents(texts)


async def test_wrong_embedder_is_rejected_when_it_is_first_needed(store: Store) -> None:
    """The error says what to pass instead."""
    async with memory_of(store, "minilm") as memory:
        with pytest.raises(InvalidArgumentError, match="embed_query"):
            await memory.query("cello")
    with pytest.raises(InvalidArgumentError, match="embed_query"):
        memory_of(store, "minilm", semantic_recall=True).get_input_processors()
