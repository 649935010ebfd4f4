"""Whose memory it is: no user and no tenant is guessed, on any face and any engine."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import Mode, answer, both_modes, model_of, texts
from tests.support.configurations import write_config
from tests.support.contexts import context, new_run
from tests.support.tenants import BAD_TENANTS, HOSTILE_TENANTS, show_tenant
from tests.support.threads import PROMPT

from recollect import (
    PER_CALL,
    Agent,
    EngineLoader,
    InvalidArgumentError,
    Memory,
    MessageHistoryProcessor,
    MessagePersistenceProcessor,
    OtherThreadsProcessor,
    Scope,
    SemanticRecallProcessor,
    Store,
    WorkingMemoryProcessor,
    open_store,
)
from recollect.memory.base import MemoryProcessor
from recollect.scope import TenantId

pytestmark = pytest.mark.anyio

ADVICE = r'user_id: is missing.*Memory\(…, user_id="me"\)'


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lasting_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database that outlives the process, on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_url")


class TestUser:
    """A memory on a file or a server has a user."""

    async def test_a_call_without_a_user_says_what_to_write(self, lasting_url: str) -> None:
        """Reading, writing and deleting alike, with a thread and without; nothing is written."""
        async with Memory(lasting_url, semantic_recall=True, embedder=None) as memory:
            calls = [
                memory.get_messages(),
                memory.add_message("user", "hi"),
                memory.add_message("user", "hi", thread_id="t"),
                memory.list_threads(),
                memory.delete_thread("t"),
                memory.query("hi"),
                memory.get_working_memory(),
                memory.clear_working_memory(),
            ]
            for call in calls:
                with pytest.raises(InvalidArgumentError, match=ADVICE):
                    await call

    @both_modes
    async def test_a_run_without_a_user_ends_before_the_model_is_asked(
        self, lasting_url: str, mode: Mode
    ) -> None:
        """The agent's own caller gets the same advice."""
        async with Memory(lasting_url) as memory:
            model = model_of("never said", mode=mode)
            for ids in ({}, {"thread_id": "t"}):
                with pytest.raises(InvalidArgumentError, match=ADVICE):
                    await answer(Agent(model, memory=memory), mode, "hi", **ids)
        assert model.shown == []

    @both_modes
    async def test_memory_among_the_output_processors_says_the_same(
        self, lasting_url: str, mode: Mode
    ) -> None:
        """It is the caller's mistake, no failed write that an answer hides."""
        async with Memory(lasting_url, working_memory="{{name}}") as memory:
            agent = Agent(model_of("ok", mode=mode), output_processors=[memory])
            with pytest.raises(InvalidArgumentError, match=ADVICE):
                await answer(agent, mode, "hi")

    @pytest.mark.parametrize("name", ["user_id", "resource_id"])
    async def test_a_user_is_understood_by_both_names(self, lasting_url: str, name: str) -> None:
        """At construction and with the call."""
        ids: dict[str, Any] = {name: "ada"}
        async with Memory(lasting_url, **ids) as hers, Memory(lasting_url) as anybodys:
            await hers.add_message("user", "one")
            await anybodys.add_message("user", "two", **ids)
            await Agent(model_of("three"), memory=anybodys).generate("hi", **ids)
            assert [text for _, text in texts(await hers.get_messages())] == ["one", "two", "hi", "three"]

    async def test_two_names_at_once_are_an_error(self) -> None:
        """Even if they agree."""
        both: dict[str, Any] = {"user_id": "ada", "resource_id": "ada"}
        for make in (Memory, partial(MessageHistoryProcessor, "unused.db")):
            with pytest.raises(InvalidArgumentError, match="user_id: is given, and so is resource_id"):
                make(**both)
        with pytest.raises(InvalidArgumentError, match="user_id: is given, and so is resource_id"):
            await Memory().get_messages(**both)

    @pytest.mark.parametrize("place", [None, "sqlite://", "sqlite:///:memory:", ":memory:", "SQLITE://"])
    async def test_a_memory_in_memory_has_a_user_of_its_own(self, place: str | None) -> None:
        """It is private, so that nobody else's data can be meant."""
        async with Memory(place) as memory:
            await memory.add_message("user", "hi")
            assert len(await memory.get_messages()) == 1

    @pytest.mark.parametrize("as_path", [str, Path, "sqlite:///{}".format], ids=["text", "path", "url"])
    async def test_a_store_is_named_by_a_path_or_a_url(
        self, tmp_path: Path, as_path: Callable[[Path], str | Path]
    ) -> None:
        """All of them are the same file."""
        path = tmp_path / "a memory.db"
        async with Memory(as_path(path), user_id="ada") as memory:
            await memory.add_message("user", "hi")
        async with open_store(as_path(path)) as store:
            assert len(await store.last_messages(None, scope=Scope(None, "ada", "default"))) == 1
            assert not store.is_in_memory

    async def test_no_random_owner_reaches_a_file(self, tmp_path: Path) -> None:
        """Whatever is called, a file knows only users whom somebody named."""
        path = tmp_path / "memory.db"
        async with Memory(path) as memory:
            agent = Agent(model_of("ok"), memory=memory)
            for call in (
                agent.generate("hi"),
                memory.create_thread(),
                memory.update_working_memory({"a": 1}),
            ):
                with pytest.raises(InvalidArgumentError, match="user_id"):
                    await call
            await agent.generate("hi", user_id="ada")
        with closing(sqlite3.connect(path)) as connection:
            for table in ("users", "threads"):
                assert connection.execute(f"SELECT DISTINCT user_id FROM {table}").fetchall() == [("ada",)]  # noqa: S608 - a constant
            query = "SELECT DISTINCT user_id FROM messages JOIN users ON users.key = messages.owner"
            assert connection.execute(query).fetchall() == [("ada",)]


PROCESSORS: dict[str, Callable[..., MemoryProcessor]] = {
    "history": MessageHistoryProcessor,
    "persistence": MessagePersistenceProcessor,
    "other threads": OtherThreadsProcessor,
    "recall": partial(SemanticRecallProcessor, embedder=None),
    "working memory": partial(WorkingMemoryProcessor, template="{{name}}"),
}


@pytest.mark.parametrize("kind", PROCESSORS)
class TestProcessors:
    """A processor by itself follows the same rules."""

    async def run(self, processor: MemoryProcessor, **ids: Any) -> None:  # noqa: ANN401 - ids by name
        """Show it a prompt, and hand it the turn."""
        run = new_run(**ids)
        assert await processor.process_input([PROMPT], context(run)) == [PROMPT]
        await processor.process_output_result([PROMPT], context(run, "result"))

    async def test_nobody_is_guessed(self, lasting_url: str, kind: str) -> None:
        """Without any id it passes messages on; a thread without a user is an error."""
        async with open_store(lasting_url) as store:
            processor = PROCESSORS[kind](store)
            await self.run(processor)
            await self.run(processor, user_id="ada", thread_id="t")
            with pytest.raises(InvalidArgumentError, match=ADVICE):
                await self.run(processor, thread_id="t")

    async def test_the_tenant_is_its_own_or_that_of_the_call(self, store: Store, kind: str) -> None:
        """One that it is not of is an error; with `PER_CALL` one that is missing is."""
        own = PROCESSORS[kind](store, tenant_id=1, user_id="ada")
        await self.run(own)
        await self.run(own, tenant_id=1)
        with pytest.raises(
            InvalidArgumentError, match="tenant_id: is 2, but this memory belongs to tenant 1"
        ):
            await self.run(own, tenant_id=2)
        any_tenant = PROCESSORS[kind](store, tenant_id=PER_CALL, user_id="ada")
        await self.run(any_tenant, tenant_id=2)
        await self.run(any_tenant, tenant_id=None)
        with pytest.raises(InvalidArgumentError, match="tenant_id: is missing"):
            await self.run(any_tenant)


class TestTenant:
    """A memory is of one tenant, or each call names its own."""

    async def test_a_call_that_names_another_tenant_is_an_error(self, store: Store) -> None:
        """A memory without a tenant belongs to tenant None, on both engines."""
        for own, other in ((None, 1), (1, None), (2, 1), ("acme", "ACME"), ("01", 1), (3, " 3")):
            memory = Memory(store, tenant_id=own, user_id="ada")
            await memory.add_message("user", "hi")
            assert len(await memory.get_messages(tenant_id=own)) == 1
            with pytest.raises(
                InvalidArgumentError, match=f"tenant_id: is {other!r}, but .* tenant {own!r};"
            ):
                await memory.get_messages(tenant_id=other)
            with pytest.raises(InvalidArgumentError, match="tenant_id"):
                await Agent(model_of("no"), memory=memory).generate("hi", tenant_id=other)
        assert len(await store.last_messages(None, scope=Scope(1, "ada", "default"))) == 1

    @pytest.mark.parametrize(("own", "named"), [(1, "1"), ("1", 1)])
    async def test_int_and_its_digits_are_one_tenant(
        self, store: Store, own: TenantId, named: TenantId
    ) -> None:
        """A call may name the memory's tenant in the other way; what comes back has the call's type."""
        memory = Memory(store, tenant_id=own, user_id="ada")
        await memory.add_message("user", "hi", tenant_id=named)
        await Agent(model_of("hello"), memory=memory).generate("again", tenant_id=named)
        assert len(await memory.get_messages()) == 3
        assert [thread.tenant_id for thread in await memory.list_threads()] == [own]
        assert [thread.tenant_id for thread in await memory.list_threads(tenant_id=named)] == [named]

    async def test_text_tenants_see_nothing_of_each_other(self, store: Store) -> None:
        """Each with a memory of its own, and all in one that takes the tenant of the call."""
        everyone = Memory(store, tenant_id=PER_CALL, user_id="ada")
        for tenant in (None, 1, *HOSTILE_TENANTS):
            await Memory(store, tenant_id=tenant, user_id="ada").add_message("user", f"of {tenant!r}")
        for tenant in (None, 1, *HOSTILE_TENANTS):
            expected = [("user", f"of {tenant!r}")]
            assert texts(await everyone.get_messages(tenant_id=tenant)) == expected
            own = Memory(store, tenant_id=tenant, user_id="ada")
            assert texts(await own.get_messages()) == expected
            assert [hit.text for hit in await own.query("of", top_k=50, threshold=0)] == [expected[0][1]]

    @pytest.mark.parametrize("tenant", BAD_TENANTS, ids=show_tenant)
    async def test_what_is_no_tenant_is_an_error(self, tenant: Any) -> None:  # noqa: ANN401 - wrong on purpose
        """At construction and with the call."""
        with pytest.raises(InvalidArgumentError, match=r"^tenant_id: "):
            Memory(tenant_id=tenant)
        with pytest.raises(InvalidArgumentError, match=r"^tenant_id: "):
            await Memory(tenant_id=PER_CALL).get_messages(tenant_id=tenant)

    async def test_a_memory_of_many_tenants_needs_one_with_each_call(self, store: Store) -> None:
        """A forgotten tenant mixes nobody's data; None is named by writing it."""
        memory = Memory(store, tenant_id=PER_CALL, user_id="ada")
        for tenant in (None, 1, 2):
            await memory.add_message("user", f"of {tenant}", tenant_id=tenant)
            assert texts(await memory.get_messages(tenant_id=tenant)) == [("user", f"of {tenant}")]
        with pytest.raises(InvalidArgumentError, match=r"tenant_id: is missing: .*PER_CALL"):
            await memory.get_messages()
        with pytest.raises(InvalidArgumentError, match=r"tenant_id: is missing: .*PER_CALL"):
            await Agent(model_of("no"), memory=memory).generate("hi")

    @pytest.mark.parametrize("tenant", [7, "7", *HOSTILE_TENANTS], ids=show_tenant)
    async def test_a_runtime_is_of_the_tenant_in_its_configuration(
        self, tmp_path: Path, tenant: TenantId
    ) -> None:
        """Its sessions, searches and events are that tenant's, and no other runtime's on the same store."""
        async with EngineLoader(write_config(tmp_path, {})).load() as engine:
            await engine.loop.run("Nobody's.", "s1")
        folder = write_config(tmp_path, {"tenantId": tenant})
        async with EngineLoader(folder).load() as engine:
            result = await engine.loop.run("The door code is 4711.", "s1")
            assert result.saved
            assert [thread.tenant_id for thread in await engine.loop.sessions.recent()] == [tenant]
            assert engine.status()["tenant_id"] == tenant
            async with open_store(engine.config.store) as store:
                for owner, prompt in ((tenant, "The door code is 4711."), (None, "Nobody's.")):
                    found = await store.last_messages(None, scope=Scope(owner, "local", "s1"))
                    assert [message.text for message in found if message.role == "user"] == [prompt]
