"""What was erased is gone from the bytes on the disk, not only from the tables."""

import asyncio
import random
from pathlib import Path

import pytest

from recollect import Message, Scope, Store, ToolCall, ToolResult, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

SECRET = "zanzibar"
VICTIM = Scope(1, "m", "chat")
OTHERS = tuple(Scope(1, user, "chat") for user in "aglnz")
STEPS = 500


@pytest.mark.parametrize("seed", range(8))
async def test_no_byte_of_a_user_is_left_when_erased(tmp_path: Path, seed: int) -> None:
    """After many writes, changes and removals of several users, no file holds the erased one's words."""
    rng = random.Random(seed)
    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        for _ in range(STEPS):
            scope = rng.choice((VICTIM, *OTHERS))
            word = SECRET if scope is VICTIM else "ordinary"
            await _some_step(rng, store, scope, f"{word} " * rng.choice((1, 4, 20, 60, 200, 700)))
        await store.append_turn([Message("user", f"the last {SECRET}")], scope=VICTIM)
        assert _places_of_secret(tmp_path), "the secret was never written"
        await store.erase(scope=VICTIM)
        assert not _places_of_secret(tmp_path)
        await store.append_turn([Message("user", "life goes on")], scope=OTHERS[0])
    assert not _places_of_secret(tmp_path)


async def test_no_byte_of_a_user_is_left_when_erased_amid_other_work(tmp_path: Path) -> None:
    """Readers and writers that are busy at the time keep nothing of the erased user in the log."""
    rng = random.Random(1)
    over = asyncio.Event()

    async def be_busy(store: Store, scope: Scope) -> None:
        while not over.is_set():
            await store.append_turn([Message("user", "ordinary " * 30)], scope=scope)
            await store.user_history(scope=scope)

    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        for _ in range(100):
            await _some_step(rng, store, VICTIM, f"{SECRET} " * rng.choice((1, 20, 200)))
        tasks = [asyncio.create_task(be_busy(store, scope)) for scope in OTHERS]
        await asyncio.sleep(0)
        await store.erase(scope=VICTIM)
        over.set()
        await asyncio.gather(*tasks)
        assert not _places_of_secret(tmp_path)


async def _some_step(rng: random.Random, store: Store, scope: Scope, text: str) -> None:
    """Write, change or remove something of a user."""
    match rng.randrange(10):
        case 0 | 1 | 2 | 3:
            call = ToolCall(f"{rng.random()}", "look", {"for": text[:300]})
            turn = [
                Message("user", text, metadata={"note": text[:80]}),
                Message("assistant", [call]),
                Message("tool", [ToolResult(call.id, "look", text[:500])]),
            ]
            await store.append_turn(turn[: rng.choice((1, 3))], scope=scope)
        case 4 | 5 | 6:
            await store.set_memory(f"key {rng.randrange(12)}", {"value": text}, scope=scope)
        case 7:
            for message in (await store.last_messages(20, scope=scope))[:1]:
                await store.delete_messages([message.id], scope=scope)
        case 8:
            await store.create_thread(scope=scope)
            await store.update_thread(title=text[:200], metadata={"note": text[:400]}, scope=scope)
        case _:
            await store.set_state(text[:100], scope=scope)


def _places_of_secret(folder: Path) -> dict[str, int]:
    """Return the files that hold the secret, and how often."""
    counts = {path.name: path.read_bytes().count(SECRET.encode()) for path in folder.iterdir()}
    return {name: count for name, count in counts.items() if count}
