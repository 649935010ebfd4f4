"""Learning after the answer was returned: it can be waited for, and never brings back what was removed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.memory.profiles import NotingModel, Slow
from tests.support.agents import ADA, Mode, answer, both_modes, model_of
from tests.support.models import Halting
from tests.support.waiting import GENEROUS

from recollect import PER_CALL, Agent, Memory, Scope, Store
from recollect.concurrency.tasks import BackgroundTasks
from recollect.trace import TraceEntry

pytestmark = pytest.mark.anyio

USER = Scope(None, "ada", "t1")


def options(extractor: object, **more: object) -> dict[str, Any]:
    """Return the options of a working memory that learns after the answer."""
    return {"template": "Email: {{email}}", "extractor": extractor, "extract": "after", **more}


def commit_of(result: Any) -> TraceEntry:  # noqa: ANN401 - a Result
    """Return the trace's entry of the commit."""
    entry = result.trace.find("working-memory", "commit")
    assert entry is not None
    return entry


@both_modes
class TestAfterTheAnswer:
    """`extract="after"`."""

    async def test_answer_does_not_wait(self, store: Store, mode: Mode) -> None:
        """The result is there while the extractor still thinks; `settled` waits for it."""
        slow = Slow({"email": "a"})
        memory = Memory(store, working_memory=options(slow.note))
        result = await answer(Agent(model_of("ok", mode=mode), memory=memory), mode, "hi", **ADA)
        assert (result.text, result.saved) == ("ok", True)
        await slow.asked.wait()
        assert (await memory.get_working_memory(**ADA)).version == 0
        waiting = asyncio.create_task(memory.settled())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        slow.go_on.set()
        await waiting
        assert (await memory.get_working_memory(**ADA)).email == "a"
        assert commit_of(result).notes == ["version 1"]
        await memory.settled()

    async def test_closing_waits_for_what_is_under_way(self, sqlite_url: str, mode: Mode) -> None:
        """What an answer taught is not lost because the program ends in good order."""
        async with Memory(sqlite_url, working_memory=options(NotingModel({"email": "a"}).model)) as memory:
            await answer(Agent(model_of("ok", mode=mode), memory=memory), mode, "hi", **ADA)
        async with Memory(sqlite_url, working_memory="{{email}}") as memory:
            assert (await memory.get_working_memory(**ADA)).email == "a"

    async def test_failure_is_traced(
        self, store: Store, mode: Mode, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nobody awaits the work, so it deals with its own failures."""

        async def fail(_: str, __: dict[str, object]) -> dict[str, object]:
            raise OSError("no network")

        memory = Memory(store, working_memory=options(fail))
        result = await answer(Agent(model_of("ok", mode=mode), memory=memory), mode, "hi", **ADA)
        await memory.settled()
        assert (commit_of(result).error, result.saved) == ("OSError", True)
        assert "leaves working memory as it was" in caplog.text


REMOVALS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "erase": lambda store: store.erase(scope=USER),
    "delete_thread": lambda store: store.delete_thread(scope=USER),
    "clear_history": lambda store: store.clear_history(scope=USER),
}


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("extent", ["resource", "thread"])
async def test_nothing_comes_back_when_it_is_removed_meanwhile(
    store: Store, removal: str, moment: str, extent: str
) -> None:
    """An erasure while the extractor thinks: its answer is dropped, also for a user who was new."""
    slow = Slow({"email": "a"})
    memory = Memory(store, working_memory=options(slow.note, extract=moment, scope=extent))
    agent = Agent(model_of("ok"), memory=memory)
    run = asyncio.create_task(agent.generate("my email is a", **ADA))
    await slow.asked.wait()
    await REMOVALS[removal](store)
    lines = [line async for line in store.export(scope=USER)]
    slow.go_on.set()
    result = await run
    await memory.settled()
    assert [line async for line in store.export(scope=USER)] == lines
    assert result.saved
    assert commit_of(result).notes == ["the extraction was dropped: data of the user was deleted meanwhile"]


async def test_nothing_comes_back_when_the_user_came_back_meanwhile(store: Store) -> None:
    """A user who was erased and writes again does not get back what was said before."""
    slow, quick = Slow({"email": "old"}), NotingModel({"email": "new"})
    background = Memory(store, working_memory=options(slow.note))
    await Agent(model_of("ok"), memory=background).generate("my email is old", **ADA)
    await slow.asked.wait()
    await store.erase(scope=USER)
    memory = Memory(store, working_memory=options(quick.model))
    await Agent(model_of("ok"), memory=memory).generate("my email is new", **ADA)
    await memory.settled()
    slow.go_on.set()
    await background.settled()
    assert [m.email for m in await memory.working_memory_history(**ADA)] == ["new"]


async def test_first_turn_of_a_new_user_is_learned_from_while_others_write(store: Store) -> None:
    """The writes of other users move nobody's epoch: fifty new users at once all keep their fields."""
    memory = Memory(store, tenant_id=None, working_memory=options(_echo))
    agent = Agent(model_of("ok"), memory=memory)
    users = [f"user{number}" for number in range(50)]
    await asyncio.gather(*(agent.generate(f"I am {user}", resource_id=user) for user in users))
    await memory.settled()
    known = [await memory.get_working_memory(resource_id=user) for user in users]
    assert [str(value.email) for value in known] == [f"user: I am {user}" for user in users]


async def test_no_turn_is_lost_when_many_of_one_user_end_at_once(store: Store) -> None:
    """Fifty turns at once, each of which teaches another field: all of them are there."""
    fields = [f"f{number}" for number in range(50)]

    async def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
        await asyncio.sleep(0.005)
        return {**current, conversation.split()[1]: conversation.split()[1]}

    template = " ".join(f"{{{{{field}}}}}" for field in fields)
    for strategy in ("merge", "replace"):
        memory = Memory(
            store,
            tenant_id=None,
            resource_id=strategy,
            working_memory=options(note, template=template, update_strategy=strategy),
        )
        agent = Agent(model_of("ok"), memory=memory)
        await asyncio.gather(*(agent.generate(f"{field} is true") for field in fields))
        await memory.settled()
        assert await memory.get_working_memory() == {field: field for field in fields}


async def test_turns_of_one_tenant_take_turns_when_it_is_named_in_two_ways(store: Store) -> None:
    """Tenant 1 and tenant "1" are one: the second extraction sees what the first has learned."""
    seen: list[dict[str, object]] = []

    async def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
        await asyncio.sleep(0.005)
        seen.append(current)
        return _echo(conversation, current)

    memory = Memory(store, tenant_id=PER_CALL, user_id="ada", working_memory=options(note))
    agent = Agent(model_of("ok"), memory=memory)
    for prompt, tenant in (("first", 1), ("second", "1")):
        await agent.generate(prompt, tenant_id=tenant)
    await memory.settled()
    assert seen == [{}, {"email": "user: first"}]


async def test_left_stream_leaves_the_old_fields(store: Store) -> None:
    """A consumer that goes while the extractor thinks: the turn is kept, and nothing half-learned is."""
    slow = Slow({"email": "a"})
    memory = Memory(store, working_memory=options(slow.note, extract="before"))
    agent = Agent(model_of("ok"), memory=memory)
    run = asyncio.create_task(agent.generate("hi", **ADA))
    await slow.asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    slow.go_on.set()
    assert (await memory.get_working_memory(**ADA)).version == 0
    assert len(await memory.get_messages(**ADA)) == 2


async def test_answer_that_was_broken_off_is_kept_and_not_learned_from(store: Store) -> None:
    """`save_partial` keeps what was seen, but half an answer teaches nothing."""
    noting = NotingModel({"email": "a"})
    memory = Memory(store, working_memory=options(noting.model, extract="before"))
    halting = Halting("I will", " write")
    stream = Agent(halting, memory=memory).stream("hi", save_partial=True, **ADA)
    async with stream:
        async for event in stream:
            if event.text == " write":
                break
    saved = await memory.get_messages(**ADA)
    assert [(m.text, m.metadata) for m in saved] == [("hi", {}), ("I will write", {"aborted": True})]
    assert (noting.prompts, (await memory.get_working_memory(**ADA)).version) == ([], 0)


def test_sync_code_can_wait_for_it(sqlite_url: str) -> None:
    """An agent's sync methods have a loop of their own; `settled` waits for it from any other."""

    async def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
        await asyncio.sleep(0.05)
        return _echo(conversation, current)

    memory = Memory(sqlite_url, working_memory=options(note))
    agent = Agent(model_of("ok"), memory=memory)
    agent.sync.generate("hi", **ADA)

    async def look() -> object:
        await memory.settled()
        return (await memory.get_working_memory(**ADA)).email

    assert asyncio.run(look()) == "user: hi"
    agent.sync.close()


def test_work_does_not_wait_for_a_loop_that_was_left_standing() -> None:
    """Earlier work on the same subject that can never end holds up nothing in another loop."""
    work, loop = BackgroundTasks(), asyncio.new_event_loop()
    done: list[str] = []

    async def begin() -> None:
        work.start("subject", asyncio.sleep(3600))

    async def note() -> None:
        done.append("noted")

    async def go_on() -> None:
        work.start("subject", note())
        await asyncio.wait_for(work.join(), GENEROUS)

    loop.run_until_complete(begin())
    asyncio.run(go_on())
    assert done == ["noted"]
    (task,) = asyncio.all_tasks(loop)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_loop_that_was_left_standing_is_not_waited_for() -> None:
    """Work that can never end does not hang whoever waits."""
    work, loop = BackgroundTasks(), asyncio.new_event_loop()

    async def begin() -> None:
        work.start("subject", asyncio.sleep(3600))

    loop.run_until_complete(begin())
    asyncio.run(asyncio.wait_for(work.join(), GENEROUS))
    (task,) = asyncio.all_tasks(loop)
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def _echo(conversation: str, current: dict[str, object]) -> dict[str, object]:
    del current
    return {"email": conversation.splitlines()[0]}
