"""How changes of working memory meet what is there, as laws and by example."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidArgumentError
from recollect.working_memory import apply_patch, is_blank, is_padding

NAMES = st.sampled_from("abcd")
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(["", " ", "x"]), st.lists(st.integers())
)
PATCHES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | LEAVES, max_size=3),
)
VALUES = PATCHES.map(lambda patch: apply_patch({}, patch, "merge"))


def test_unmentioned_fields_stay_and_null_deletes() -> None:
    """The merge is deep; lists are replaced; an object that loses its last field goes with it."""
    old: dict[str, Any] = {"name": "Ann", "home": {"city": "Rome", "zip": 1}, "tags": [1, 2], "x": {"y": 1}}
    patch: dict[str, Any] = {"home": {"zip": None}, "tags": [3], "x": {"y": None}, "age": 0}
    assert apply_patch(old, patch, "merge") == {
        "name": "Ann",
        "home": {"city": "Rome"},
        "tags": [3],
        "age": 0,
    }


def test_object_takes_the_place_of_a_text_and_the_other_way_round() -> None:
    """Where kinds differ the new one stays; an object of nothing but nulls deletes no text."""
    assert apply_patch({"a": "x"}, {"a": {"b": 1}}, "merge") == {"a": {"b": 1}}
    assert apply_patch({"a": {"b": 1}}, {"a": "x"}, "merge") == {"a": "x"}
    assert apply_patch({"a": "x", "b": 1}, {"a": {"b": None}, "b": 2}, "merge") == {"a": "x", "b": 2}


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", {}, {"a": ""}, {"a": {"b": []}}])
def test_blank_value_never_overwrites_content(blank: object) -> None:
    """A model that fills in a form with nothing wipes nothing, alone or beside something new."""
    for old in ({"name": "Ann"}, {"name": {"a": {"b": [1]}}}):
        assert apply_patch(old, {"name": blank}, "merge") == old
        assert apply_patch(old, {"name": blank}, "replace") == old
        merged = apply_patch(old, {"name": blank, "age": 1}, "merge")
        assert merged["age"] == 1
        assert not is_blank(merged["name"]) or blank == {"a": {"b": []}}


def test_replacement_leaves_only_what_it_says() -> None:
    """Nulls and blanks of a replacement are not kept."""
    assert apply_patch({"a": 1, "b": 2}, {"b": 3, "c": None, "d": ""}, "replace") == {"b": 3}


def test_check_may_change_what_is_kept() -> None:
    """What the check gives back is kept; what it raises ends the change."""
    assert apply_patch({}, {"age": "5"}, "merge", lambda values: {**values, "age": 5}) == {"age": 5}

    def refuse(_: dict[str, object]) -> dict[str, object]:
        raise InvalidArgumentError("patch", "no")

    with pytest.raises(InvalidArgumentError):
        apply_patch({}, {"a": 1}, "merge", refuse)
    assert apply_patch({"b": 1}, {"a": 1, "c": 2}, "merge", lambda _: {"c": None}) == {"b": 1}
    assert apply_patch({"stale": 1}, {"stale": ""}, "merge", lambda values: values) == {"stale": 1}


def test_padding_is_told_from_a_wish_to_delete() -> None:
    """Several fields without content are a form that was sent back empty; one null is a wish."""
    assert is_padding({"a": None, "b": None})
    assert is_padding({"a": None, "b": "", "c": []})
    assert not is_padding({"a": None})
    assert not is_padding({"a": None, "b": "x"})
    assert not is_padding({})


@given(old=VALUES)
def test_nothing_changes_when_nothing_is_said(old: dict[str, object]) -> None:
    """An empty change is no change."""
    for strategy in ("merge", "replace"):
        assert apply_patch(old, {}, strategy) == old


@given(old=VALUES, patch=PATCHES)
def test_merging_twice_is_merging_once(old: dict[str, object], patch: dict[str, object]) -> None:
    """A change that comes again does nothing more."""
    once = apply_patch(old, patch, "merge")
    assert apply_patch(once, patch, "merge") == once


@given(old=VALUES, patch=PATCHES)
def test_only_mentioned_fields_change(old: dict[str, object], patch: dict[str, object]) -> None:
    """Whatever a change says, all other fields are as before, and the old value is not touched."""
    before = repr(old)
    new = apply_patch(old, patch, "merge")
    assert {name: new[name] for name in new if name not in patch} == {
        name: old[name] for name in old if name not in patch
    }
    assert repr(old) == before


@given(old=VALUES, patch=PATCHES)
def test_no_null_is_ever_kept_as_a_field(old: dict[str, object], patch: dict[str, object]) -> None:
    """Null means "delete"; it stays only within lists."""
    for strategy in ("merge", "replace"):
        assert "None" not in repr(apply_patch(old, patch, strategy))
