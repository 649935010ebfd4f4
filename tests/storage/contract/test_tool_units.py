"""What a store promises about tool calls: nothing that reads or deletes separates one from its results.

A call, its results and what stands between them are a unit. The tests write turns of many shapes,
say which units they must become, and compare every possible reading with a plain list of those units.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import pytest
from tests.storage.contract.samples import (
    ANN,
    append_turns,
    call,
    exported,
    ids_of,
    result,
    said,
    whole_thread,
)

from recollect.messages import Message, ReasoningPart, ToolCall, ToolResult
from recollect.scope import Scope
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

Units: TypeAlias = list[list[str]]
"""Ids of messages, those of one unit together."""


class Shape(NamedTuple):
    """Turns, and the units that their messages must become."""

    turns: Sequence[Sequence[Message]]
    units: Sequence[str]

    @property
    def ids_by_unit(self) -> Units:
        """The units as lists of ids."""
        return [unit.split() for unit in self.units]


def _both(message_id: str, call_id: str, result_of: str) -> Message:
    return Message("assistant", [ToolResult(result_of, "tool", 1), ToolCall(call_id, "tool")], id=message_id)


SHAPES = {
    "one call": Shape([[*said("q"), call("c", "1"), result("r", "1"), *said("a")]], ["q", "c r", "a"]),
    "parallel calls": Shape(
        [[*said("q"), call("c", "1", "2"), result("r1", "1"), result("r2", "2"), *said("a")]],
        ["q", "c r1 r2", "a"],
    ),
    "parallel results": Shape([[call("c", "1", "2"), result("r", "2", "1"), *said("a")]], ["c r", "a"]),
    "calls one after the other": Shape(
        [[call("c1", "1"), result("r1", "1"), call("c2", "2"), result("r2", "2")]], ["c1 r1", "c2 r2"]
    ),
    "nested calls": Shape(
        [[*said("q"), call("c1", "1"), call("c2", "2"), result("r2", "2"), result("r1", "1"), *said("a")]],
        ["q", "c1 c2 r2 r1", "a"],
    ),
    "crossing calls": Shape(
        [[call("c1", "1"), call("c2", "2"), result("r1", "1"), result("r2", "2"), *said("a")]],
        ["c1 c2 r1 r2", "a"],
    ),
    "chained calls": Shape([[call("c", "1"), _both("b", "2", "1"), result("r", "2")]], ["c b r"]),
    "messages between": Shape(
        [[*said("q"), call("c", "1"), *said("hm", "so"), result("r", "1")]], ["q", "c hm so r"]
    ),
    "two results of one call": Shape([[call("c", "1"), result("r1", "1"), result("r2", "1")]], ["c r1 r2"]),
    "call without result": Shape([[*said("q"), call("c", "1"), *said("a")]], ["q", "c", "a"]),
    "result without call": Shape([[*said("q"), result("r", "1"), *said("a")]], ["q", "r", "a"]),
    "result before its call": Shape([[result("r", "1"), call("c", "1"), *said("a")]], ["r", "c", "a"]),
    "result in a later turn": Shape(
        [[*said("q"), call("c", "1")], [result("r", "1"), *said("a")]], ["q", "c r", "a"]
    ),
    "result in a later turn after other messages": Shape(
        [[*said("q"), call("c", "1")], said("x", "y"), [*said("z"), result("r", "1"), *said("a")]],
        ["q", "c x y z r", "a"],
    ),
    "results of one message in several turns": Shape(
        [[call("c", "1", "2")], [result("r1", "1")], [result("r2", "2")], said("a")], ["c r1 r2", "a"]
    ),
    "results of two turns in a third": Shape(
        [[call("c1", "1")], [call("c2", "2")], [result("r1", "1"), result("r2", "2")], said("a")],
        ["c1 c2 r1 r2", "a"],
    ),
    "results of two turns in a third, turned round": Shape(
        [[call("c1", "1")], said("x"), [call("c2", "2")], [result("r2", "2"), result("r1", "1")], said("a")],
        ["c1 x c2 r2 r1", "a"],
    ),
    "outer result after an inner unit": Shape(
        [[call("c1", "1")], [call("c2", "2"), result("r2", "2")], [result("r1", "1")]], ["c1 c2 r2 r1"]
    ),
    "call id used again": Shape(
        [[call("c1", "1"), result("r1", "1"), *said("x"), call("c2", "1"), result("r2", "1")]],
        ["c1 r1", "x", "c2 r2"],
    ),
    "call id used again, its result later": Shape(
        [[call("c1", "1"), result("r1", "1"), *said("x")], [call("c2", "1")], [result("r2", "1")]],
        ["c1 r1", "x", "c2 r2"],
    ),
    "call id used again in the turn of an earlier call's result": Shape(
        [[call("c1", "1")], [result("r1", "1"), call("c2", "1"), result("r2", "1")]], ["c1 r1", "c2 r2"]
    ),
    "turn sent again with more": Shape(
        [[*said("q"), call("c", "1")], [*said("q"), call("c", "1"), result("r", "1"), *said("a")]],
        ["q", "c r", "a"],
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_no_reading_separates_a_unit(store: Store, shape: Shape) -> None:
    """Every limit, page, offset and context gives whole units, and no more of them than it must."""
    await append_turns(store, shape.turns)
    assert ids_of(await whole_thread(store)) == _flatten(shape.ids_by_unit)
    await _check_last_messages(store, shape.ids_by_unit)
    await _check_reading_around(store, shape.ids_by_unit)
    await _check_pages(store, shape.ids_by_unit)
    await _check_context(store, shape.ids_by_unit)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_deleting_any_message_removes_no_more_than_it_must(store: Store, shape: Shape) -> None:
    """By id or by number, a call or result goes with those of its unit, any other message goes alone."""
    messages = {message.id: message for turn in shape.turns for message in turn}
    tools = {name for name, message in messages.items() if message.tool_calls or message.tool_results}
    for unit in shape.ids_by_unit:
        for name in unit:
            gone = tools.intersection(unit) if name in tools else {name}
            left = [other for other in _flatten(shape.ids_by_unit) if other not in gone]
            scope = Scope(1, f"user of {name}", "t")
            await append_turns(store, shape.turns, scope)
            assert await store.delete_messages([name], scope=scope) == len(gone)
            assert ids_of(await whole_thread(store, scope)) == left
            scope = Scope(1, f"user of number {name}", "t")
            await append_turns(store, shape.turns, scope)
            numbers = {m.id: m.number or 0 for m in await whole_thread(store, scope)}
            assert await store.delete_message_number(numbers[name], tenant_id=1)
            assert ids_of(await whole_thread(store, scope)) == left


async def test_unit_is_whole_when_a_message_between_was_deleted(store: Store) -> None:
    """The call and its result are still read, paged and deleted together."""
    await append_turns(store, [[*said("q"), call("c", "1")], said("x", "y"), [result("r", "1"), *said("a")]])
    assert await store.delete_messages(["x"], scope=ANN) == 1
    units = [["q"], ["c", "y", "r"], ["a"]]
    await _check_last_messages(store, units)
    await _check_reading_around(store, units)
    await _check_pages(store, units)
    thread = await store.get_thread(scope=ANN)
    assert thread is not None
    assert thread.message_count == 5
    assert await store.delete_messages(["r"], scope=ANN) == 2
    assert ids_of(await whole_thread(store)) == ["q", "y", "a"]


async def test_messages_between_are_free_when_call_and_result_were_deleted(store: Store) -> None:
    """What stood between a call and its result stays, and nothing ties it together any more."""
    await append_turns(store, [[*said("q"), call("c", "1")], said("x", "y"), [result("r", "1"), *said("a")]])
    assert await store.delete_messages(["c"], scope=ANN) == 2
    units = [["q"], ["x"], ["y"], ["a"]]
    await _check_last_messages(store, units)
    await _check_reading_around(store, units)
    await _check_pages(store, units)
    copy = Scope(1, "copy", "t")
    await store.import_(await exported(store), scope=copy)
    await _check_last_messages(store, units, copy)


async def test_units_are_the_same_after_an_import(store: Store) -> None:
    """An imported thread keeps together what the exported one did, whatever its shape."""
    for number, (name, shape) in enumerate(SHAPES.items()):
        origin, copy = Scope(1, name, "t"), Scope(number + 2, "copy", "t")
        await append_turns(store, shape.turns, origin)
        await store.import_(await exported(store, origin), scope=copy)
        await _check_last_messages(store, shape.ids_by_unit, copy)


async def test_one_message_is_deleted_when_a_result_came_very_late(store: Store) -> None:
    """A result after a thousand messages stands alone; one that comes in time, in the same turn, does not."""
    chat = said(*(f"m{number}" for number in range(1000)))
    await append_turns(
        store, [[call("c", "1")], chat, [call("d", "2")], [result("r", "1"), result("s", "2")]]
    )
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["d", "r", "s"]
    assert await store.delete_messages(["m500"], scope=ANN) == 1
    assert await store.delete_messages(["c"], scope=ANN) == 1
    copy = Scope(1, "copy", "t")
    await store.import_(await exported(store), scope=copy)
    assert ids_of(await store.last_messages(1, scope=copy)) == ["d", "r", "s"]


async def test_result_finds_its_call_when_many_messages_stand_between(store: Store) -> None:
    """A call is not separated from its result by rich messages between them."""
    thoughts = [Message("assistant", [ReasoningPart("hm")], id=f"m{n}") for n in range(150)]
    await append_turns(store, [[*said("q"), call("c", "1")], thoughts, [result("r", "1")]])
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["c", *ids_of(thoughts), "r"]


async def test_results_join_only_calls_of_their_own_thread(store: Store) -> None:
    """The same call id in another thread, app or user is another call."""
    for scope in (ANN.with_thread("u"), Scope(1, "ann", "t", app_id="x"), Scope(2, "ann", "t")):
        await store.append_turn([call("foreign", "1"), *said("foreign text")], scope=scope)
    await append_turns(store, [said("q"), [result("r", "1")]])
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["r"]
    other = ANN.with_thread("u")
    assert ids_of(await store.last_messages(1, scope=other)) == ["foreign text"]


async def test_result_in_a_later_turn_joins_what_is_left_after_a_deletion(store: Store) -> None:
    """Gaps in the positions do not keep a result from its call."""
    await append_turns(store, [[*said("q"), call("c", "1")], said("x", "y")])
    await store.delete_messages(["x"], scope=ANN)
    await append_turns(store, [[result("r", "1")]])
    assert ids_of(await store.last_messages(1, scope=ANN)) == ["c", "y", "r"]


async def test_result_in_a_later_turn_stands_alone_when_its_call_was_deleted(store: Store) -> None:
    """A result that comes after its call was removed ties nothing together."""
    await append_turns(store, [[*said("q"), call("c", "1")], said("x")])
    await store.delete_messages(["c"], scope=ANN)
    await append_turns(store, [[result("r", "1"), *said("a")]])
    assert ids_of(await store.last_messages(2, scope=ANN)) == ["r", "a"]


async def test_result_that_is_merged_in_joins_its_call(store: Store) -> None:
    """Import with `merge` joins a result to a call that is stored already."""
    bob = Scope(1, "bob", "t")
    turn = [*said("q"), call("c", "1")]
    await append_turns(store, [turn])
    await append_turns(store, [[*turn, result("r", "1"), *said("a")]], bob)
    await store.import_(await exported(store, bob), merge=True, scope=ANN)
    assert ids_of(await store.last_messages(2, scope=ANN)) == ["c", "r", "a"]


async def _check_last_messages(store: Store, units: Units, scope: Scope = ANN) -> None:
    """The end of a thread is the shortest that has enough messages."""
    for limit in range(_length(units) + 2):
        assert ids_of(await store.last_messages(limit, scope=scope)) == _flatten(_ending(units, limit))


async def _check_reading_around(store: Store, units: Units) -> None:
    """Before and after a message begin outside of its unit."""
    for place, unit in enumerate(units):
        for name in unit:
            for limit in (0, 1, 2, _length(units)):
                before = await store.messages_before(name, limit, scope=ANN)
                assert ids_of(before) == _flatten(_ending(units[:place], limit))
                after = await store.messages_after(name, limit, scope=ANN)
                assert ids_of(after) == _flatten(_beginning(units[place + 1 :], limit))


async def _check_pages(store: Store, units: Units) -> None:
    """A unit is on the page where it begins; pages of one limit make up the whole thread."""
    length = _length(units)
    for limit in (1, 2, 3, length, length + 1):
        pages: dict[int, list[str]] = {}
        for offset in range(length + 1):
            page = await store.page_of_messages(limit=limit, offset=offset, scope=ANN)
            pages[offset] = ids_of(page)
            assert pages[offset] == _flatten(_begun_within(units, offset, limit))
        assert [name for offset in range(0, length, limit) for name in pages[offset]] == _flatten(units)


async def _check_context(store: Store, units: Units) -> None:
    """A message found by id comes with its unit, and so does its context."""
    names = _flatten(units)
    for place, name in enumerate(names):
        for previous, following in ((0, 0), (1, 0), (0, 1), (2, 2)):
            found = await store.messages_by_id([name], with_previous=previous, with_next=following, scope=ANN)
            wanted = set(names[max(0, place - previous) : place + following + 1])
            assert ids_of(found) == _flatten([unit for unit in units if wanted.intersection(unit)])


def _length(units: Units) -> int:
    return sum(map(len, units))


def _flatten(units: Units) -> list[str]:
    return [name for unit in units for name in unit]


def _ending(units: Units, limit: int) -> Units:
    return _beginning(units[::-1], limit)[::-1]


def _beginning(units: Units, limit: int) -> Units:
    taken: Units = []
    for unit in units:
        if _length(taken) >= limit:
            break
        taken.append(unit)
    return taken


def _begun_within(units: Units, offset: int, limit: int) -> Units:
    starts = [_length(units[:place]) for place in range(len(units))]
    return [unit for unit, start in zip(units, starts, strict=True) if offset <= start < offset + limit]
