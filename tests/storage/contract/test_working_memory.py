"""What a store promises about working memory: deep merges, versions, and no change that is lost."""

import asyncio

import pytest
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS, UNICODE, exported, exported_body, said

from recollect.errors import ConflictError, InvalidArgumentError, MemoryNotFoundError
from recollect.scope import Scope
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

HERS = ANN.with_thread(None)
"""The working memory of the user, and not of a thread."""

WRITERS = 50


async def test_working_memory_is_empty_when_nobody_wrote_it(store: Store) -> None:
    """An unknown user has an empty value of version 0, and no history."""
    memory = await store.get_working_memory(scope=HERS)
    assert (memory.to_dict(), memory.version, memory.updated_at) == ({}, 0, None)
    assert await store.working_memory_history(scope=HERS) == []


async def test_change_is_merged_deeply(store: Store, clock: ScriptedClock) -> None:
    """Objects are merged, lists replaced, None deletes, and what is not mentioned stays."""
    await store.update_working_memory(
        {"name": "Ann", "home": {"city": "Rome", "zip": "1"}, "likes": ["tea", "figs"]}, scope=HERS
    )
    later = clock.tick()
    change: dict[str, object] = {"home": {"city": "Oslo", "zip": None}, "likes": ["ice"], "age": 3}
    memory = await store.update_working_memory(change, run_id="run", scope=HERS)
    expected = {"name": "Ann", "home": {"city": "Oslo"}, "likes": ["ice"], "age": 3}
    assert memory == expected
    assert await store.get_working_memory(scope=HERS) == expected
    assert (memory.version, memory.updated_at, memory.run_id) == (2, later, "run")


async def test_values_come_back_as_they_were_given(store: Store) -> None:
    """No number is rounded, no key is sorted, no text is changed."""
    value: dict[str, object] = {
        "z": [0.1, 10**40, -(2**63), 5e-324, True, None],
        UNICODE: UNICODE,
        "a": {"": "x", "deep": [[{"b": None}]]},
    }
    await store.update_working_memory(value, scope=HERS)
    assert repr((await store.get_working_memory(scope=HERS)).to_dict()) == repr(value)


@pytest.mark.parametrize("strategy", ["merge", "replace"])
async def test_blank_change_never_overwrites_content(store: Store, strategy: str) -> None:
    """A form that was sent back empty leaves everything as it was, without a new version."""
    await store.update_working_memory({"name": "Ann", "home": {"city": "Rome"}}, scope=HERS)
    before = await exported(store)
    blanks: list[dict[str, object]] = [
        {},
        {"name": ""},
        {"name": " \n", "home": {}},
        {"home": {"city": ""}, "likes": []},
    ]
    for blank in blanks:
        await store.update_working_memory(blank, strategy=strategy, scope=HERS)  # pyright: ignore[reportArgumentType] - one of both
    assert await exported(store) == before


async def test_replacement_takes_the_place_of_everything(store: Store) -> None:
    """With the version that it names still there, what it does not mention is gone."""
    await store.update_working_memory({"a": 1, "b": 2}, scope=HERS)
    memory = await store.update_working_memory(
        {"b": 3, "c": None}, strategy="replace", seen_version=1, scope=HERS
    )
    assert memory == {"b": 3}


async def test_replacement_is_merged_when_it_lost_the_race(store: Store) -> None:
    """A version that has moved on is not overwritten."""
    await store.update_working_memory({"a": 1}, scope=HERS)
    await store.update_working_memory({"b": 2}, scope=HERS)
    memory = await store.update_working_memory({"a": 5}, strategy="replace", seen_version=1, scope=HERS)
    assert memory == {"a": 5, "b": 2}


async def test_change_is_a_conflict_when_it_expects_another_version(store: Store) -> None:
    """Nothing is written, whatever the strategy; 0 expects that there is none yet."""
    await store.update_working_memory({"a": 1}, expected_version=0, scope=HERS)
    await store.update_working_memory({"b": 2}, expected_version=1, scope=HERS)
    for strategy in ("merge", "replace"):
        for version in (0, 1, 3):
            with pytest.raises(ConflictError, match=f"is at version 2, not {version}"):
                await store.update_working_memory(
                    {"a": 5}, strategy=strategy, expected_version=version, scope=HERS
                )
    memory = await store.get_working_memory(scope=HERS)
    assert (memory, memory.version) == ({"a": 1, "b": 2}, 2)


async def test_change_that_alters_nothing_makes_no_version(store: Store) -> None:
    """Saying the same again is no change; deleting what is not there is none either."""
    await store.update_working_memory({"a": 1}, scope=HERS)
    again = await store.update_working_memory({"a": 1, "b": None}, scope=HERS)
    assert again.version == 1
    assert (await store.update_working_memory({"a": True}, scope=HERS)).version == 2


async def test_check_sees_what_changes_and_may_refuse_it(store: Store) -> None:
    """A check is given the merged fields that the change alters; if it raises nothing is written."""
    await store.update_working_memory({"old": 1, "home": {"city": "Rome"}}, scope=HERS)
    seen: list[dict[str, object]] = []

    def check(values: dict[str, object]) -> dict[str, object]:
        seen.append(values)
        return values | {"zip": 7}

    change: dict[str, object] = {"home": {"zip": 1}, "old": 1, "gone": None}
    memory = await store.update_working_memory(change, check=check, scope=HERS)
    assert seen == [{"home": {"city": "Rome", "zip": 1}}]
    assert memory == {"old": 1, "home": {"city": "Rome", "zip": 1}, "zip": 7}
    before = await exported(store)
    with pytest.raises(InvalidArgumentError, match="no"):
        await store.update_working_memory({"a": 1}, check=_refuse, scope=HERS)
    assert await exported(store) == before


async def test_change_is_refused_when_the_whole_becomes_too_large(store: Store) -> None:
    """Each field is small, but every prompt would contain all of them."""
    await store.update_working_memory({"a": "x" * 60_000}, scope=HERS)
    before = await exported(store)
    with pytest.raises(InvalidArgumentError, match="at most 65,536"):
        await store.update_working_memory({"b": "x" * 60_000}, scope=HERS)
    assert await exported(store) == before


async def test_no_change_is_lost_when_many_write_at_once(store: Store) -> None:
    """Fifty writers at once: every field is there, and every version is one of them."""
    await asyncio.gather(
        *(store.update_working_memory({f"f{n}": n, "all": {f"n{n}": n}}, scope=HERS) for n in range(WRITERS))
    )
    memory = await store.get_working_memory(scope=HERS)
    assert {name: memory[name] for name in memory if name != "all"} == {f"f{n}": n for n in range(WRITERS)}
    assert memory["all"] == {f"n{n}": n for n in range(WRITERS)}
    assert memory.version == WRITERS


async def test_nothing_is_lost_when_many_replace_at_once(store: Store) -> None:
    """Fifty replacements of one version: the first replaces, the others are merged."""
    await store.update_working_memory({"before": 1}, scope=HERS)
    await asyncio.gather(
        *(
            store.update_working_memory({f"f{n}": n}, strategy="replace", seen_version=1, scope=HERS)
            for n in range(WRITERS)
        )
    )
    assert await store.get_working_memory(scope=HERS) == {f"f{n}": n for n in range(WRITERS)}


async def test_background_change_is_refused_when_something_was_removed(store: Store) -> None:
    """Work that began before an erasure brings nothing back, also where the user came back meanwhile."""
    await store.append_turn(said("a"), scope=ANN)
    epoch = await store.pin_epoch(scope=HERS)
    assert (await store.update_working_memory({"a": 1}, epoch=epoch, scope=HERS)).version == 1
    await store.erase(scope=ANN)
    for again in (False, True):
        if again:
            await store.append_turn(said("b"), scope=ANN)
        before = await exported(store)
        with pytest.raises(ConflictError, match="deleted meanwhile"):
            await store.update_working_memory({"a": 2}, epoch=epoch, scope=HERS)
        assert await exported(store) == before


async def test_clearing_forgets_all_versions(store: Store) -> None:
    """Nothing is left to restore, and counting starts again."""
    for number in range(3):
        await store.update_working_memory({"n": number}, scope=HERS)
    await store.update_working_memory({"n": 1}, scope=ANN)
    assert await store.clear_working_memory(scope=HERS) == 3
    assert await store.clear_working_memory(scope=HERS) == 0
    assert await store.working_memory_history(scope=HERS) == []
    assert await store.get_working_memory(scope=ANN) == {"n": 1}
    assert (await store.update_working_memory({"n": 1}, scope=HERS)).version == 1


async def test_working_memory_is_the_users_own(store: Store) -> None:
    """Another user, or the same name in another tenant, has another one."""
    await store.update_working_memory({"of": "mine"}, scope=HERS)
    before = await exported(store)
    for other in OTHERS:
        place = other.with_thread(None)
        assert await store.get_working_memory(scope=place) == {}
        await store.update_working_memory({"of": "theirs"}, scope=place)
        assert await store.clear_working_memory(scope=place) == 1
        assert await exported(store) == before


async def test_history_has_the_newest_version_first(store: Store, clock: ScriptedClock) -> None:
    """Each version is there with its fields and its time."""
    times = [clock.tick() for _ in range(3)]
    for number in range(3):
        await store.update_working_memory({"n": number}, scope=HERS)
    history = await store.working_memory_history(scope=HERS)
    assert [(m.version, m.to_dict()) for m in history] == [(3, {"n": 2}), (2, {"n": 1}), (1, {"n": 0})]
    assert {m.updated_at for m in history} == {times[-1]}
    assert [m.version for m in await store.working_memory_history(limit=2, scope=HERS)] == [3, 2]


async def test_last_hundred_versions_are_kept(store: Store) -> None:
    """Older ones go, so that a busy memory does not grow forever."""
    for number in range(103):
        await store.update_working_memory({"n": number}, scope=HERS)
    history = await store.working_memory_history(scope=HERS)
    assert [m.version for m in history] == list(range(103, 3, -1))


async def test_restoring_writes_an_old_version_as_a_new_one(store: Store) -> None:
    """What was wiped comes back, and the wiped state stays in the history."""
    await store.update_working_memory({"a": 1}, scope=HERS)
    await store.update_working_memory({"a": None}, scope=HERS)
    restored = await store.restore_working_memory(1, scope=HERS)
    assert (restored, restored.version) == ({"a": 1}, 3)
    assert (await store.restore_working_memory(3, scope=HERS)).version == 3
    assert len(await store.working_memory_history(scope=HERS)) == 3


async def test_unknown_version_cannot_be_restored(store: Store) -> None:
    """It is an error that names the version, and leaves nothing behind."""
    with pytest.raises(MemoryNotFoundError, match="version 7"):
        await store.restore_working_memory(7, scope=HERS)
    assert len(await exported(store)) == 2


async def test_thread_has_a_working_memory_of_its_own(store: Store) -> None:
    """That of the user spans all apps; that of a thread is of one thread of one app and project."""
    for place in (HERS, ANN, ANN.with_thread("u"), *ELSEWHERE):
        await store.update_working_memory({"at": repr(place)}, scope=place)
    for place in (ANN, ANN.with_thread("u"), *ELSEWHERE):
        assert await store.get_working_memory(scope=place) == {"at": repr(place)}
    for place in ELSEWHERE:
        assert await store.get_working_memory(scope=place.with_thread(None)) == {"at": repr(HERS)}


async def test_working_memory_of_a_thread_goes_with_it(store: Store) -> None:
    """Deleting a thread, also one without messages, leaves only the others' and the user's."""
    await store.append_turn(said("a"), scope=ANN)
    places = (HERS, ANN, ANN.with_thread("u"), ELSEWHERE[0])
    for place in places:
        await store.update_working_memory({"a": 1}, scope=place)
    assert await store.delete_thread(scope=ANN) is True
    assert await store.delete_thread(scope=ANN.with_thread("u")) is False
    kept = [(await store.get_working_memory(scope=place)).version for place in places]
    assert kept == [1, 0, 0, 1]


async def test_working_memory_of_threads_goes_with_the_history(store: Store) -> None:
    """Clearing the history leaves the user's own working memory."""
    for place in (HERS, ANN, ELSEWHERE[0]):
        await store.update_working_memory({"a": 1}, scope=place)
    epoch = await store.epoch(scope=ANN)
    assert await store.clear_history(scope=ANN) == 0
    assert await store.epoch(scope=ANN) > epoch
    kept = [(await store.get_working_memory(scope=p)).version for p in (HERS, ANN, ELSEWHERE[0])]
    assert kept == [1, 0, 0]


async def test_newer_working_memory_stays_when_an_export_is_merged(
    store: Store, clock: ScriptedClock
) -> None:
    """The newer value becomes the next version; the older one changes nothing."""
    bob = Scope(1, "bob")
    await store.update_working_memory({"of": "ann", "old": 1}, scope=HERS)
    await store.update_working_memory({"of": "bob"}, scope=bob.with_thread("t"))
    clock.tick()
    await store.update_working_memory({"of": "bob"}, scope=bob)
    await store.update_working_memory({"of": "ann"}, scope=ANN)
    counts = await store.import_(await exported(store, bob), merge=True, scope=ANN)
    assert counts["working_memory"] == 1
    assert [m.to_dict() for m in await store.working_memory_history(scope=HERS)] == [
        {"of": "bob"},
        {"of": "ann", "old": 1},
    ]
    assert await store.get_working_memory(scope=ANN) == {"of": "ann"}


async def test_export_has_all_versions(store: Store, clock: ScriptedClock) -> None:
    """An imported working memory can still be restored."""
    for number in range(4):
        clock.tick()
        await store.update_working_memory({"n": number}, run_id=f"run {number}", scope=HERS)
    lines = await exported(store)
    await store.erase(scope=ANN)
    await store.import_(lines, scope=ANN)
    assert await exported_body(store) == lines[1:]
    assert await store.restore_working_memory(2, scope=HERS) == {"n": 1}


def _refuse(_: dict[str, object]) -> dict[str, object]:
    raise InvalidArgumentError("patch", "no")
