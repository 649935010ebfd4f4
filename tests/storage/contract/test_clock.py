"""What a store promises when its clock is set back: order, ids and epochs do not come from the clock."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from tests.storage.contract.samples import ANN, exported_body, ids_of, said, whole_thread
from tests.storage.tables import raw_numbers

from recollect.agent.agent import Agent
from recollect.errors import ConflictError, UserErasedError
from recollect.memory.memory import Memory
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.opening import open_store
from recollect.storage.store import Store
from recollect.testing import ScriptedClock, ScriptedModel

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
BOB = Scope(1, "bob", "t")


@pytest.fixture
async def behind(store: Store, store_url: str) -> AsyncGenerator[Store]:
    """The same database in another process whose clock is five hours behind; in memory, the store itself."""
    if store.is_in_memory:
        yield store
        return
    clock = ScriptedClock()
    clock.tick(-5 * 3600)
    async with open_store(store_url, clock=clock) as opened:
        yield opened


async def _say(store: Store, clock: ScriptedClock, *names: str) -> list[int]:
    """Append messages that were written now."""
    messages = [message.replace(created_at=clock.time) for message in said(*names)]
    return [place.number for place in await store.append_turn(messages, scope=ANN)]


async def test_messages_stay_in_order_when_the_clock_is_set_back(store: Store, clock: ScriptedClock) -> None:
    """Ends, pages, neighbours, the user's history and the export have the order of the commits."""
    numbers: list[int] = []
    for name in "abcd":
        numbers += await _say(store, clock, name)
        clock.tick(-3600)
    assert numbers == sorted(numbers)
    assert ids_of(await whole_thread(store)) == ["a", "b", "c", "d"]
    assert ids_of(await store.last_messages(2, scope=ANN)) == ["c", "d"]
    assert ids_of(await store.page_of_messages(limit=2, scope=ANN)) == ["a", "b"]
    assert ids_of(await store.messages_before("c", 1, scope=ANN)) == ["b"]
    assert ids_of(await store.user_history(scope=ANN)) == ["d", "c", "b", "a"]
    await store.import_(['{"kind":"export","format":1}', *await exported_body(store)], scope=BOB)
    assert ids_of(await whole_thread(store, BOB)) == ["a", "b", "c", "d"]
    thread = await store.get_thread(scope=ANN)
    assert thread is not None
    assert thread.message_count == 4


async def test_writes_of_processes_with_other_clocks_have_one_order(
    store: Store, behind: Store, clock: ScriptedClock
) -> None:
    """Processes whose clocks are hours apart write in turn; the last write counts, not the latest time."""
    for number, writer in enumerate((store, behind, store, behind)):
        await writer.append_turn(said(f"{number}"), scope=ANN)
        await writer.set_memory("n", {"n": number}, scope=ANN)
        await writer.set_state(f"{number}", scope=ANN)
        await writer.update_working_memory({"n": number}, scope=ANN)
        await writer.add_event(f"{number}", {}, scope=ANN)
        clock.tick(-60)
    for reader in (store, behind):
        assert ids_of(await whole_thread(reader)) == ["0", "1", "2", "3"]
        assert [entry.value for entry in await reader.list_memory(scope=ANN)] == [{"n": 3}]
        state = await reader.get_state(scope=ANN)
        assert state is not None
        assert state.mode == "3"
        assert (await reader.get_working_memory(scope=ANN))["n"] == 3
        assert [event.name for event in await reader.list_events(scope=ANN)] == ["0", "1", "2", "3"]


async def test_expiry_is_a_moment_when_the_clock_is_set_back(store: Store, clock: ScriptedClock) -> None:
    """What is not removed yet can be read again until that moment; what was removed stays removed."""
    await store.append_turn(said("stays"), scope=ANN)
    await store.append_turn(said("gone"), expires_at=clock.time + HOUR, scope=ANN)
    clock.tick(2 * 3600)
    assert ids_of(await whole_thread(store)) == ["stays"]
    clock.tick(-2 * 3600)
    assert ids_of(await whole_thread(store)) == ["stays", "gone"]
    clock.tick(2 * 3600)
    await store.append_turn(said("later"), scope=ANN)
    assert len(await raw_numbers(store)) == 2
    clock.tick(-2 * 3600)
    assert ids_of(await whole_thread(store)) == ["stays", "later"]
    await store.append_turn(said("short"), expires_at=clock.time + HOUR, scope=ANN)
    clock.tick(3600)
    assert ids_of(await whole_thread(store)) == ["stays", "later"]


async def test_runs_are_recognised_when_the_clock_is_set_back(store: Store, clock: ScriptedClock) -> None:
    """A run that is sent again writes nothing twice, and another turn of the same run is a conflict."""
    turn = [Message("user", "a", id="run:1"), Message("assistant", "b", id="run:2")]
    first = await store.append_turn(turn, run_id="run", scope=ANN)
    clock.tick(-24 * 3600)
    again = await store.append_turn(turn, run_id="run", scope=ANN)
    assert [place.number for place in again] == [place.number for place in first]
    assert not any(place.is_new for place in again)
    with pytest.raises(ConflictError):
        await store.append_turn([Message("user", "c", id="run:1")], run_id="run", scope=ANN)


async def test_epochs_grow_when_the_clock_is_set_back(store: Store, clock: ScriptedClock) -> None:
    """A deletion raises the epoch, and a run that began before an erasure writes nothing, at any time."""
    await _say(store, clock, "a", "b")
    seen = [await store.epoch(scope=ANN)]
    erase_epoch = await store.pin_erase_epoch(scope=ANN)
    for step in range(3):
        clock.tick(-3600)
        await _say(store, clock, f"x{step}")
        await store.delete_messages([f"x{step}"], scope=ANN)
        seen.append(await store.epoch(scope=ANN))
    clock.tick(-3600)
    seen.append((await store.erase(scope=ANN)).epoch)
    assert seen == sorted(set(seen))
    with pytest.raises(UserErasedError):
        await store.append_turn(said("back"), erase_epoch=erase_epoch, scope=ANN)


async def test_prune_goes_by_the_times_of_messages_when_the_clock_is_set_back(
    store: Store, clock: ScriptedClock
) -> None:
    """Messages are as old as they say, in whatever order they were written, and a dry run counts the same."""
    start = clock.time
    for name, hours in (("new", 0), ("old", -9), ("newer", 1), ("older", -10)):
        clock.time = start + hours * HOUR
        await _say(store, clock, name)
    clock.time = start - 20 * HOUR
    before = start - 5 * HOUR
    assert await store.prune(before, dry_run=True, scope=ANN) == (2, 0)
    assert await store.prune(before, scope=ANN) == (2, 0)
    assert ids_of(await whole_thread(store)) == ["new", "newer"]


async def test_agent_remembers_and_recalls_when_the_clock_is_set_back_between_turns(
    store: Store, clock: ScriptedClock
) -> None:
    """History, recall and ttl work on: messages from the future are shown, found, and expire in time."""
    memory = Memory(
        store, ttl=4 * HOUR, semantic_recall=True, embedder=None, tenant_id=1, user_id="ann", thread_id="t"
    )
    model = ScriptedModel(["The key is under the mat.", "Noted.", "Under the mat."])
    agent = Agent(model, memory=memory)
    for prompt in ("Where is the key?", "Thanks", "Where was the key?"):
        assert (await agent.generate(prompt)).saved
        clock.tick(-3 * 3600)
    assert [message.text for message in model.shown[-1] if message.role == "user"][-1] == "Where was the key?"
    assert "The key is under the mat." in await _find_texts(memory)
    assert len(await whole_thread(store)) == 6
    clock.tick(3600 * 10)
    texts = [message.text for message in await whole_thread(store)]
    assert texts == ["Where is the key?", "The key is under the mat."]
    clock.tick(3600 * 3)
    assert await whole_thread(store) == []
    assert not await _find_texts(memory)


async def _find_texts(memory: Memory) -> list[str]:
    return [hit.message.text for hit in (await memory.query("key mat")).hits]
