"""A run that has read memory before an erasure writes nothing after it."""

import asyncio
from collections.abc import Callable

import pytest
from tests.memory.profiles import Slow
from tests.support.agents import ADA, Mode, answer, both_modes

from recollect import Agent, Memory, Message, Processor, RunContext, Scope, Store, ToolCall, open_store
from recollect.backends.base import CompletedRun, Recollection, StartedRun
from recollect.backends.processor import BackendProcessor
from recollect.errors import ConflictError, UserErasedError
from recollect.memory.history import MessagePersistenceProcessor
from recollect.memory.semantic_recall import SemanticRecallProcessor
from recollect.memory.working_memory import WorkingMemoryProcessor
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

USER = Scope(None, "ada", "t1")
NOTE = ToolCall("c", "update_working_memory", {"changes": {"email": "a@b.c"}})


class Eraser(Processor):
    """Erases the user once, after memory was read and before the model is asked."""

    id = "eraser"
    after_memory = True

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self._store = store

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Erase the user."""
        del ctx
        await self._store.erase(scope=USER)
        return messages


async def count_rows(store: Store) -> int:
    """Return how many rows are stored of the user, and whether the user has one."""
    known = await store.list_users(tenant_id=None)
    return (await store.erase(scope=USER)).total + len(known)


def note_email(conversation: str, fields: dict[str, object]) -> dict[str, object]:
    """Find the same address in every conversation."""
    del conversation, fields
    return {"email": "a@b.c"}


MEMORIES: dict[str, Callable[[Store], Memory]] = {
    "history": Memory,
    "recall alone": lambda store: Memory(store, last_messages=False, semantic_recall=True, embedder=None),
    "other threads": lambda store: Memory(store, last_messages=False, other_threads=3),
    "working memory": lambda store: Memory(store, working_memory={"template": "{{email}}", "tool": True}),
    "extraction": lambda store: Memory(
        store, working_memory={"template": "{{email}}", "extractor": note_email}
    ),
}


@both_modes
@pytest.mark.parametrize("kind", MEMORIES)
async def test_nothing_is_written_when_the_user_is_erased_after_memory_was_read(
    store: Store, kind: str, mode: Mode
) -> None:
    """Neither the turn nor what it teaches is stored; the result and the trace say so."""
    memory = MEMORIES[kind](store)
    await memory.add_message("user", "My secret is Rosebud.", **ADA)
    await memory.update_working_memory({"email": "old"}, **ADA)
    tools = [NOTE, "You said Rosebud."] if kind == "working memory" else ["You said Rosebud."]
    agent = Agent(ScriptedModel(tools), memory=memory, input_processors=[Eraser(store)])
    result = await answer(agent, mode, "What is my secret?", **ADA)
    assert (result.text, result.saved) == ("You said Rosebud.", False)
    assert "UserErasedError: this user was erased meanwhile" in str(result.trace)
    assert await count_rows(store) == 0


async def test_error_is_raised_when_the_caller_wants_memory_errors(store: Store) -> None:
    """`on_memory_error="raise"` names the erasure."""
    memory = Memory(store)
    await memory.add_message("user", "Hi.", **ADA)
    agent = Agent(ScriptedModel("ok"), memory=memory, input_processors=[Eraser(store)])
    with pytest.raises(UserErasedError):
        await agent.generate("hi", on_memory_error="raise", **ADA)


async def test_turn_is_saved_when_the_run_itself_creates_the_user(store: Store) -> None:
    """A user without data has no erase epoch yet: the first turn is stored, and so is the next."""
    agent = Agent(ScriptedModel("ok"), memory=Memory(store))
    assert [(await agent.generate(text, **ADA)).saved for text in ("one", "two")] == [True, True]


async def test_turn_is_saved_when_messages_are_deleted_meanwhile(store: Store) -> None:
    """Only an erasure changes the erase epoch."""
    memory = Memory(store)
    kept = await memory.add_message("user", "Hi.", **ADA)

    async def forget() -> str:
        await store.delete_messages([kept.id], scope=USER)
        return "done"

    agent = Agent(ScriptedModel([ToolCall("f", "forget", {}), "ok"]), memory=memory, tools=[forget])
    assert (await agent.generate("forget it", **ADA)).saved


async def test_seen_part_is_not_saved_when_the_user_is_erased_before_the_reader_leaves(store: Store) -> None:
    """What is kept of a stream that is left early obeys the same rule."""
    memory = Memory(store)
    await memory.add_message("user", "My secret is Rosebud.", **ADA)
    agent = Agent(ScriptedModel("You said Rosebud.", chunk_size=3), memory=memory)
    async with agent.stream("What is my secret?", save_partial=True, **ADA) as events:
        assert (await anext(events)).text == "You"
        await store.erase(scope=USER)
    assert await count_rows(store) == 0


async def test_nothing_is_written_when_processors_of_one_database_stand_alone(sqlite_url: str) -> None:
    """Processors that were given the same URL share what the first of them has read."""
    async with Memory(sqlite_url) as memory, open_store(sqlite_url) as store:
        await memory.add_message("user", "My secret is Rosebud.", **ADA)
        recall = SemanticRecallProcessor(sqlite_url, embedder=None)
        agent = Agent(
            ScriptedModel("Rosebud"),
            input_processors=[recall, Eraser(store)],
            output_processors=[MessagePersistenceProcessor(sqlite_url)],
        )
        assert not (await agent.generate("secret?", **ADA)).saved
        assert await count_rows(store) == 0


async def test_tool_writes_nothing_when_working_memory_stands_alone(store: Store) -> None:
    """Without a turn to store, working memory compares the erase epoch itself."""
    fields = WorkingMemoryProcessor(store, template="{{email}}", tool=True)
    await store.update_working_memory({"email": "old"}, scope=USER.with_thread(None))
    agent = Agent(
        ScriptedModel([NOTE, "ok"]), input_processors=[fields, Eraser(store)], output_processors=[fields]
    )
    result = await agent.generate("hi", **ADA)
    assert "UserErasedError" in str(result.trace)
    assert await count_rows(store) == 0


class ListBackend:
    """A long-term memory that keeps runs in a list."""

    name = "list"
    rule = ""

    def __init__(self) -> None:
        """Begin empty."""
        self.kept: list[CompletedRun] = []

    async def recall_before_run(self, run: StartedRun) -> Recollection:
        """Recall nothing."""
        del run
        return Recollection()

    async def persist_after_run(self, run: CompletedRun) -> None:
        """Keep the run."""
        self.kept.append(run)

    def get_tools(self) -> tuple[()]:
        """Have no tools."""
        return ()

    def status(self) -> dict[str, object]:
        """Have no settings."""
        return {}

    async def close(self) -> None:
        """Have nothing open."""


async def test_long_term_memory_gets_nothing_when_the_user_was_erased(store: Store) -> None:
    """A turn that came too late for the store is not sent elsewhere either."""
    memory, backend = Memory(store), ListBackend()
    await memory.add_message("user", "Hi.", **ADA)
    agent = Agent(
        ScriptedModel("ok"),
        memory=memory,
        input_processors=[Eraser(store)],
        output_processors=[memory, BackendProcessor(backend)],
    )
    assert not (await agent.generate("hi", **ADA)).saved
    assert backend.kept == []


async def test_extraction_writes_nothing_when_the_user_is_erased_while_it_thinks(store: Store) -> None:
    """The turn was saved before the erasure, which removed it; what it taught does not come back."""
    slow = Slow({"email": "a@b.c"})
    memory = Memory(store, working_memory={"template": "{{email}}", "extractor": slow.note})
    await memory.add_message("user", "Hi.", **ADA)
    run = asyncio.create_task(Agent(ScriptedModel("ok"), memory=memory).generate("my email", **ADA))
    await slow.asked.wait()
    await store.erase(scope=USER)
    slow.go_on.set()
    await run
    assert await count_rows(store) == 0


async def test_pin_of_an_erased_user_is_refused_and_creates_nothing(store: Store) -> None:
    """`pin_epoch(erase_epoch=…)` raises once the user was erased."""
    await store.set_state("calm", scope=USER)
    epoch = await store.erase_epoch(scope=USER)
    await store.erase(scope=USER)
    with pytest.raises(ConflictError):
        await store.pin_epoch(erase_epoch=epoch, scope=USER)
    assert await store.erase_epoch(scope=USER) is None
