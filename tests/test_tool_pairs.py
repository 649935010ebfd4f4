"""Which messages belong together: a tool call, its results, and what stands between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import Message, ToolCall, ToolResult
from recollect.tool_pairs import MAX_DISTANCE, assign_units, find_earlier_calls, pair_calls


def said(*parts: str) -> Message:
    """Return a message that calls (`+id`), answers calls (`-id`), or just says something."""
    if all(part[0] not in "+-" for part in parts):
        return Message("user", " ".join(parts))
    body = [
        ToolCall(part[1:], "add", {}) if part[0] == "+" else ToolResult(part[1:], "add", 4) for part in parts
    ]
    return Message("tool" if parts[0][0] == "-" else "assistant", body)


def units(*messages: Message, first: int = 10, earlier: dict[str, int] | None = None) -> list[int]:
    """Return the unit of each message of a turn that begins at a position."""
    return assign_units(list(enumerate(messages, first)), earlier)


def earlier_calls(*messages: Message) -> dict[str, int]:
    """Return the calls before a turn that begins at position 10, with the positions of their results."""
    return find_earlier_calls(list(enumerate(messages, 10)))


def pairs(*messages: Message) -> list[tuple[int, int]]:
    """Return which messages hold a call and its answer."""
    return [(pair.call_index, pair.result_index) for pair in pair_calls(messages)]


def test_result_belongs_to_the_nearest_call_before_it() -> None:
    """An id that is used again means its latest call, and a result before any call has none."""
    assert pairs(said("hi"), said("+a"), said("-a"), said("+a"), said("-a")) == [(1, 2), (3, 4)]
    assert pairs(said("+a"), said("+a"), said("-a")) == [(1, 2)]
    assert pairs(said("-a"), said("+a"), said("hi")) == []


def test_only_the_first_result_answers_a_call() -> None:
    """A further one finds no older call of the same id either."""
    assert pairs(said("+a"), said("-a"), said("-a")) == [(0, 1)]
    assert pairs(said("+a"), said("+a"), said("-a"), said("-a")) == [(1, 2)]


def test_pairs_hold_the_call_and_the_result() -> None:
    """Also of several calls in one message, in the order of the results."""
    (first, second) = pair_calls([said("+a", "+b"), said("-b", "-a")])
    assert (first.call.id, first.result.call_id) == ("b", "b")
    assert (second.call.id, second.result.call_id) == ("a", "a")


def test_result_does_not_answer_a_call_of_its_own_message() -> None:
    """The message is sent whole: the call cannot have been answered in it."""
    assert pairs(said("-a", "+a"), said("-a")) == [(0, 1)]
    assert pairs(said("+a", "-a")) == []


def test_each_message_is_a_unit_of_its_own_without_tools() -> None:
    """It is named by its own position."""
    assert units(said("hi"), said("ho"), said("ha")) == [10, 11, 12]


def test_call_and_result_are_one_unit_with_all_between_them() -> None:
    """The unit has the name of the call's position; what is said before and after is not part of it."""
    assert units(said("hi"), said("+a"), said("wait"), said("-a"), said("done")) == [10, 11, 11, 11, 14]


def test_several_results_of_one_message_are_in_its_unit() -> None:
    """Whether they come together or one by one."""
    assert units(said("+a", "+b"), said("-a"), said("-b"), said("ok")) == [10, 10, 10, 13]
    assert units(said("+a", "+b"), said("-a", "-b"), said("ok")) == [10, 10, 12]


def test_units_that_overlap_become_one() -> None:
    """A second call between a call and its result is separated from neither."""
    assert units(said("+a"), said("+b"), said("-a"), said("-b"), said("ok")) == [10, 10, 10, 10, 14]


def test_result_joins_the_unit_of_a_call_before_the_turn() -> None:
    """With everything that the turn has before it."""
    assert units(said("hi"), said("-a"), said("ok"), earlier={"a": 7}) == [7, 7, 12]


def test_result_without_a_call_is_a_unit_of_its_own() -> None:
    """Nobody knows what it answers, or its call comes only after it."""
    assert units(said("hi"), said("-a")) == [10, 11]
    assert units(said("-a"), said("+a"), earlier={"b": 3}) == [10, 11]


def test_call_is_late_when_it_was_made_before_the_turn() -> None:
    """What is called and answered in the turn is not, and neither is what is called after its answer."""
    assert earlier_calls(said("-a"), said("+b"), said("-b"), said("hi"), said("-a")) == {"a": 10}
    assert earlier_calls(said("hi"), said("-a"), said("+a")) == {"a": 11}
    assert earlier_calls(said("hi"), said("+a")) == {}


@pytest.mark.parametrize("between", [MAX_DISTANCE - 1, MAX_DISTANCE])
def test_result_is_a_unit_of_its_own_when_it_comes_very_late(between: int) -> None:
    """A call does not tie a whole conversation together; a call beside it keeps its result."""
    turn = [said("+a"), *[said("hi")] * (between - 2), said("+b"), said("-b"), said("-a")]
    assert (units(*turn)[-1] == 10) is (between < MAX_DISTANCE)
    assert units(*turn)[-2] == units(*turn)[-3]


@given(st.lists(st.sampled_from(["+a", "-a", "+b", "-b", "hi"]), max_size=9))
def test_units_are_runs_named_by_their_first_message(parts: list[str]) -> None:
    """Whatever is called and answered: units never go back, and each begins where its name says."""
    found = units(*map(said, parts))
    assert found == sorted(found)
    assert all(found[unit - 10] == unit for unit in found)
