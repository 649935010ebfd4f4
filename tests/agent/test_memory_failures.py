"""When memory fails: a read goes on without it, a write does not lose the answer."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.agents import ADA, Mode, answer, both_modes, model_of, texts

from recollect import (
    Agent,
    Memory,
    Message,
    Processor,
    RecollectError,
    RunContext,
    StorageError,
    Store,
    open_store,
)
from recollect.errors import WrongOwnerError
from recollect.storage.opening import sqlite_path

pytestmark = [pytest.mark.anyio, both_modes]


def break_table(url: str) -> None:
    """Drop the table of messages without the store's knowledge."""
    with closing(sqlite3.connect(sqlite_path(url))) as raw:
        raw.execute("ALTER TABLE messages RENAME TO gone")
        raw.commit()


def refuse_writes(url: str) -> None:
    """Let every new message fail."""
    with closing(sqlite3.connect(sqlite_path(url))) as raw:
        raw.execute(
            "CREATE TRIGGER t BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'disk is tired'); END"
        )
        raw.commit()


@pytest.mark.parametrize("run_id", [None, "r1"])
async def test_answer_comes_without_memory_when_reading_fails(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, mode: Mode, run_id: str | None
) -> None:
    """A failed read is in the trace and in the log, and the model is asked without history."""
    async with Memory(sqlite_url) as memory:
        await memory.add_message("user", "old", **ADA)
        break_table(sqlite_url)
        model = model_of("hello", mode=mode)
        with caplog.at_level(logging.WARNING, "recollect"):
            result = await answer(Agent(model, memory=memory), mode, "hi", run_id=run_id, **ADA)
    assert result.text == "hello"
    assert not result.saved
    assert texts(model.shown[0]) == [("user", "hi")]
    entry = result.trace.find("message-history", "input")
    assert entry is not None
    assert entry.error is not None
    assert "message-history goes on without memory" in caplog.text


async def test_answer_comes_when_the_database_cannot_be_opened(tmp_path: Path, mode: Mode) -> None:
    """A memory whose file cannot be made costs memory, not the answer; later it may work again."""
    folder = tmp_path / "later"
    memory = Memory(f"sqlite:///{folder}/store.db")
    agent = Agent(model_of("one", "two", mode=mode), memory=memory)
    first = await answer(agent, mode, "hi", **ADA)
    assert (first.text, first.saved) == ("one", False)
    folder.mkdir()
    second = await answer(agent, mode, "hi", **ADA)
    assert (second.text, second.saved) == ("two", True)
    await memory.close()


async def test_answer_comes_unsaved_when_writing_fails(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    """A failed write says so in `saved`, in the trace and in the log."""
    async with Memory(sqlite_url) as memory:
        await memory.list_threads(**ADA)
        refuse_writes(sqlite_url)
        with caplog.at_level(logging.WARNING, "recollect"):
            result = await answer(Agent(model_of("hello", mode=mode), memory=memory), mode, "hi", **ADA)
        assert await memory.get_messages(**ADA) == []
    assert (result.text, result.saved) == ("hello", False)
    assert texts(result.messages) == [("user", "hi"), ("assistant", "hello")]
    entry = result.trace.find("message-persistence", "commit")
    assert entry is not None
    assert "disk is tired" in str(entry.error)
    assert "could not save the turn" in caplog.text


async def test_error_is_raised_when_writing_fails_and_the_caller_wants_that(
    sqlite_url: str, mode: Mode
) -> None:
    """`on_memory_error="raise"` raises the store's error."""
    async with Memory(sqlite_url) as memory:
        await memory.list_threads(**ADA)
        refuse_writes(sqlite_url)
        agent = Agent(model_of("hello", mode=mode), memory=memory)
        with pytest.raises(StorageError, match="disk is tired"):
            await answer(agent, mode, "hi", on_memory_error="raise", **ADA)


class Closer(Processor):
    """Closes a store when the turn is finished: what is staged cannot be written any more."""

    id = "closer"
    observes = True

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self._store = store

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Close it."""
        del ctx
        await self._store.close()
        return messages


async def test_answer_comes_unsaved_when_the_store_is_closed_meanwhile(store_url: str, mode: Mode) -> None:
    """The same on every engine: the store goes away between reading and writing."""
    store = await open_store(store_url)
    agent = Agent(model_of("hello", mode=mode), memory=Memory(store), output_processors=[Closer(store)])
    result = await answer(agent, mode, "hi", **ADA)
    assert (result.text, result.saved) == ("hello", False)


class BadCommit(Processor):
    """Stages a write that fails with an error that is not ours."""

    id = "bad-commit"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage it."""
        ctx.on_commit(self._fail)
        return messages

    async def _fail(self) -> None:
        raise OSError("the mail server is down")


async def test_answer_is_not_lost_when_a_staged_write_fails_with_any_error(mode: Mode) -> None:
    """A provider's own error while writing costs the write, not the answer."""
    agent = Agent(model_of("hello", mode=mode), output_processors=[BadCommit()])
    result = await answer(agent, mode, "hi", **ADA)
    assert (result.text, result.saved) == ("hello", False)


@pytest.mark.parametrize("is_first", [True, False])
async def test_turn_is_saved_when_another_staged_write_fails(mode: Mode, *, is_first: bool) -> None:
    """`saved` is what memory's own write did, whatever becomes of the others and in whatever order."""
    async with Memory() as memory:
        listed = [BadCommit(), memory] if is_first else [memory, BadCommit()]
        result = await answer(
            Agent(model_of("hello", mode=mode), output_processors=listed), mode, "hi", **ADA
        )
        stored = await memory.get_messages(**ADA)
    assert result.saved
    assert texts(stored) == [("user", "hi"), ("assistant", "hello")]
    entry = result.trace.find("bad-commit", "commit")
    assert entry is not None
    assert "mail server" in str(entry.error)


class OtherWrite(Processor):
    """Stages a write that works."""

    id = "other-write"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage it."""
        ctx.on_commit(self._write)
        return messages

    async def _write(self) -> None: ...


async def test_turn_is_not_called_saved_when_only_another_write_was_done(sqlite_url: str, mode: Mode) -> None:
    """A write of somebody else's does not make up for memory's own; without a memory it is all there is."""
    async with Memory(sqlite_url) as memory:
        await memory.list_threads(**ADA)
        refuse_writes(sqlite_url)
        agent = Agent(model_of("hello", mode=mode), output_processors=[OtherWrite(), memory])
        assert not (await answer(agent, mode, "hi", **ADA)).saved
    alone = Agent(model_of("hello", mode=mode), output_processors=[OtherWrite()])
    assert (await answer(alone, mode, "hi", **ADA)).saved


async def test_all_writes_are_tried_when_an_error_is_to_be_raised(mode: Mode) -> None:
    """`on_memory_error="raise"` raises at the end, and what could be saved is."""
    async with Memory() as memory:
        agent = Agent(model_of("hello", mode=mode), output_processors=[BadCommit(), memory])
        with pytest.raises(OSError, match="mail server"):
            await answer(agent, mode, "hi", on_memory_error="raise", **ADA)
        assert len(await memory.get_messages(**ADA)) == 2


async def test_store_of_another_loop_is_an_error_when_memory_is_used(sqlite_url: str, mode: Mode) -> None:
    """A mistake in the program is no bad luck of the database: it is raised, before the model is asked."""
    model = model_of("never said", mode=mode)
    async with open_store(sqlite_url) as store:
        readers = Agent(model, memory=Memory(store, resource_id="ada"))
        with pytest.raises(WrongOwnerError, match="pass the database URL"):
            await asyncio.to_thread(lambda: readers.sync.generate("hi"))
        assert model.shown == []
        writers = Agent(model, output_processors=[Memory(store, resource_id="ada")])
        with pytest.raises(WrongOwnerError):
            await asyncio.to_thread(lambda: writers.sync.generate("hi"))


async def test_unknown_word_for_memory_errors_is_refused(mode: Mode) -> None:
    """A misspelt `on_memory_error` is an error, not the default."""
    with pytest.raises(RecollectError, match="on_memory_error"):
        await answer(Agent(model_of("hello", mode=mode)), mode, "hi", on_memory_error="rise")
