"""What a change makes of a list of entries."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.backends.curated.entries import (
    Change,
    InvalidChange,
    Operation,
    Plan,
    count_characters,
    parse,
    plan,
    preview,
    read_change,
    serialise,
)

ENTRIES = ("Likes tea", "Likes tea with milk", "Lives in Lisbon")
WORDS = st.text(st.sampled_from("ab§\n \r"), max_size=8)
OPERATIONS = st.builds(
    Operation, st.sampled_from(["add", "replace", "remove"]), st.none() | WORDS, st.none() | WORDS
)


def outcome(
    *operations: Operation, limit: int = 1000, entries: tuple[str, ...] = ENTRIES
) -> Plan | InvalidChange:
    """Plan without a scan."""
    return plan(entries, operations, limit=limit, scan=lambda _: None)


def made(*operations: Operation, entries: tuple[str, ...] = ENTRIES, limit: int = 1000) -> tuple[str, ...]:
    """Plan what must succeed."""
    found = outcome(*operations, entries=entries, limit=limit)
    assert isinstance(found, Plan), found
    return found.entries


def plan_invalid(
    *operations: Operation, limit: int = 1000, entries: tuple[str, ...] = ENTRIES
) -> InvalidChange:
    """Plan an invalid change."""
    found = outcome(*operations, limit=limit, entries=entries)
    assert isinstance(found, InvalidChange), found
    return found


def test_entry_is_added_replaced_and_removed() -> None:
    """A part of an entry is enough to name it."""
    assert made(Operation("add", " Plays chess\n")) == (*ENTRIES, "Plays chess")
    assert made(Operation("replace", "Lives in Rome", "Lisbon")) == (*ENTRIES[:2], "Lives in Rome")
    assert made(Operation("remove", None, "Lisbon")) == ENTRIES[:2]


def test_nothing_changes_when_the_entry_is_there_already() -> None:
    """A duplicate is a success, also as a replacement; one that equals another entry unites the two."""
    assert made(Operation("add", "Likes tea")) == ENTRIES
    assert made(Operation("replace", "Lives in Lisbon", "Lisbon")) == ENTRIES
    assert made(Operation("replace", "Likes tea", "Lisbon")) == ENTRIES[:2]


def test_whole_entry_is_meant_when_another_contains_it() -> None:
    """Otherwise the shorter of two could never be named."""
    assert made(Operation("remove", None, "Likes tea")) == ENTRIES[1:]


def test_entry_is_found_but_for_its_line_breaks() -> None:
    """A model is shown entries indented, and may write accents in another form than an editor."""
    assert made(Operation("remove", None, "Jos\u00e9"), entries=("Knows Jose\u0301 well",)) == ()
    assert made(Operation("remove", None, "one two"), entries=("one\n  two three",)) == ()


def test_first_is_meant_when_several_are_identical() -> None:
    """A person may have written one twice."""
    assert made(Operation("remove", None, "x"), entries=("x y", "b", "x y")) == ("b", "x y")


def test_invalid_change_lists_the_entries_when_several_match() -> None:
    """The model can choose then."""
    invalid = plan_invalid(Operation("replace", "x", "tea w"), entries=("tea w 1", "tea w 2"))
    assert invalid.matches == ("tea w 1", "tea w 2")
    assert len(preview("x" * 200)) == 80


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Operation("remove", None, "Paris"), "no entry contains"),
        (Operation("remove"), "old_text is missing"),
        (Operation("replace", "x", "  "), "old_text is missing"),
        (Operation("replace", None, "Lisbon"), "use remove"),
        (Operation("add", " \n"), "content is empty"),
        (Operation("add"), "content is empty"),
        (Operation("add", "a\n§\nb"), "§"),
        (Operation("add", "a\r\n§\r\nb"), "§"),
        (Operation("add", "§\nb"), "§"),
        (Operation("add", "b\n§"), "§"),
        (Operation("add", "§"), "§"),
        (Operation("add", "a\n § \nb"), "§"),
        (Operation("add", "a\0b"), "NUL"),
        (Operation("add", "a\ud800b"), "surrogate"),
    ],
)
def test_operation_is_refused_with_the_way_out(operation: Operation, words: str) -> None:
    """Nothing is guessed, and nothing can become two entries."""
    assert words in plan_invalid(operation).problem


def test_sign_within_a_line_is_ordinary_text() -> None:
    """Only a line with nothing else separates entries."""
    assert made(Operation("add", "See § 12 of the law\n§12 says")) == (
        *ENTRIES,
        "See § 12 of the law\n§12 says",
    )


def test_limit_counts_only_at_the_end_of_a_batch() -> None:
    """An operation may make room after the one that needs it; alone that one is invalid."""
    full = count_characters(ENTRIES)
    add, remove = Operation("add", "Plays chess"), Operation("remove", None, "milk")
    assert "at most" in plan_invalid(add, limit=full).problem
    assert made(add, remove, limit=full) == ("Likes tea", "Lives in Lisbon", "Plays chess")


def test_file_over_its_limit_can_be_made_shorter() -> None:
    """A person may have written more than fits; the model can still tidy up, and add nothing."""
    assert made(Operation("remove", None, "milk"), limit=5) == ("Likes tea", "Lives in Lisbon")
    assert plan_invalid(Operation("replace", "Lives in Lisbon, Portugal", "Lisbon"), limit=5)


def test_batch_is_refused_whole_and_names_the_operation() -> None:
    """All or nothing."""
    invalid = plan_invalid(Operation("add", "new"), Operation("remove", None, "Paris"))
    assert invalid.problem.startswith("operation 2: no entry")


def test_text_that_the_scan_refuses_is_not_written() -> None:
    """Each new text of a batch is looked at."""
    found = plan([], [Operation("add", "a"), Operation("add", "b")], limit=99, scan={"b": "bad"}.get)
    assert isinstance(found, InvalidChange)
    assert "bad" in found.problem


@given(st.lists(OPERATIONS, min_size=1, max_size=5), st.integers(0, 60))
def test_plans_keep_the_laws(operations: list[Operation], limit: int) -> None:
    """What comes out can be written and read back, within the limit, and the same plan again is the same."""
    found = outcome(*operations, limit=limit, entries=("a", "ab", "b a"))
    if isinstance(found, Plan):
        assert parse(serialise(found.entries)) == (found.entries, "", "", None)
        size = count_characters(found.entries)
        assert size <= limit or size < count_characters(("a", "ab", "b a"))
        assert outcome(*operations, limit=limit, entries=("a", "ab", "b a")) == found
        assert len(set(found.entries)) == len(found.entries)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "other", "action": "add"}, "target must be"),
        ({"target": ["memory"], "action": "add"}, "target must be"),
        ({}, "action must be"),
        ({"action": "read"}, "action must be"),
        ({"action": "add", "content": 5}, "content must be text"),
        ({"action": "add", "operations": [{"action": "add"}]}, "not both"),
        ({"operations": "add"}, "must be a list"),
        ({"operations": ["add"]}, "must be an object"),
        ({"operations": [{"action": "add"}] * 101}, "at most"),
    ],
)
def test_arguments_that_are_no_change_are_refused(arguments: Mapping[str, Any], words: str) -> None:
    """Whatever a model, or a guard after it, made of them."""
    found = read_change(arguments)
    assert isinstance(found, InvalidChange)
    assert words in found.problem


def test_arguments_are_read_as_one_operation_or_several() -> None:
    """A target that is null is the agent's own notes, and an empty list of operations is none."""
    one = read_change({"target": None, "action": "add", "content": "x", "operations": []})
    assert one == Change("memory", (Operation("add", "x"),))
    several = read_change({"target": "user", "operations": [{"action": "remove", "old_text": "x"}]})
    assert several == Change("user", (Operation("remove", None, "x"),))
