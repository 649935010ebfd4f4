"""What a store promises about messages that are looked for by their metadata."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.contract.samples import ANN, ELSEWHERE, OTHERS, UNICODE, call, result

from recollect.messages import Message
from recollect.storage.store import Store
from recollect.validation import Scalar

pytestmark = pytest.mark.anyio

SCALARS: tuple[Scalar, ...] = (
    *(None, True, False, 0, 1, -1, 2**53 + 1, 2**63, -(2**70), 0.0, -0.0, 1.0, 0.1, 0.1 + 0.2, 1e300, 5e-324),
    *("", "1", "1.0", "true", "null", "None", " x", "x", "X", "x%", "é", "e\u0301", '\u00e9\n"\\', UNICODE),
)
"""No two of them are equal as JSON, though Python and SQL hold some of them for equal."""

KEYS = (
    *("a", "A", "a.b", "a b", "", "0", "$", "$.a", "[0]", "#", "*", "'", '"', '"a"', "\\", "\\u0061", "\n"),
    *("é", "e\u0301", "日本", "%s", ":x", 'a"b\\c', UNICODE),
)
"""Keys that a path, a pattern or a statement could take for something else."""


async def _say(store: Store, *metadata: Mapping[str, object]) -> list[int]:
    turn = [Message("user", "said", metadata=values) for values in metadata]
    return [place.number for place in await store.append_turn(turn, scope=ANN)]


async def test_messages_are_found_when_a_value_is_the_same(store: Store) -> None:
    """Equal means equal as JSON: 1, 1.0, True and "1" differ, and None is not a missing key."""
    numbers = await _say(store, *({"k": value} for value in SCALARS), {"other": None}, {})
    for number, value in zip(numbers, SCALARS, strict=False):
        assert await store.numbers_with_metadata({"k": value}, scope=ANN) == [number], repr(value)


async def test_messages_are_found_by_any_key(store: Store) -> None:
    """A key is a name and nothing else, whatever it looks like."""
    numbers = await _say(store, *({"a0": 0, key: 1, "z": {"a": 1}} for key in KEYS))
    for number, key in zip(numbers, KEYS, strict=True):
        assert await store.numbers_with_metadata({key: 1}, scope=ANN) == [number], repr(key)


async def test_all_values_must_be_the_same(store: Store) -> None:
    """A message with some of them is not found; without any wanted value every message is."""
    both, _, _, more = numbers = await _say(
        store, {"a": 1, "b": "x"}, {"a": 1}, {"b": "x"}, {"c": [], "b": "x", "a": 1}
    )
    assert await store.numbers_with_metadata({"a": 1, "b": "x"}, scope=ANN) == [both, more]
    assert await store.numbers_with_metadata({"b": "x", "a": 1}, scope=ANN) == [both, more]
    assert await store.numbers_with_metadata({}, scope=ANN) == numbers


async def test_lists_and_objects_equal_no_scalar(store: Store) -> None:
    """A value within a list, or deeper down, does not count."""
    await _say(store, {"k": ["x"]}, {"k": {"k": "x"}}, {"k": '["x"]'}, {"j": {"k": "x"}})
    assert await store.numbers_with_metadata({"k": "x"}, scope=ANN) == []


async def test_only_searched_messages_of_the_user_are_found(store: Store) -> None:
    """Those of every thread, app and project; none of tools, of other users or of other tenants."""
    marked = {"k": "x"}
    places = [
        (await store.append_turn([Message("user", "said", metadata=marked)], scope=scope))[0]
        for scope in (ANN, ANN.with_thread("u"), *ELSEWHERE)
    ]
    for other in OTHERS:
        await store.append_turn([Message("user", "said", metadata=marked)], scope=other)
    turn = [call("call", "c"), result("result", "c"), Message("system", "rule", metadata=marked)]
    await store.append_turn([*turn, Message("assistant", "", metadata=marked)], scope=ANN)
    wanted = [place.number for place in places]
    assert await store.numbers_with_metadata(marked, scope=ANN) == wanted
    await store.delete_thread(scope=ANN)
    assert await store.numbers_with_metadata(marked, scope=ANN) == wanted[1:]
    await store.erase(scope=ANN)
    assert await store.numbers_with_metadata(marked, scope=ANN) == []


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(TEXT, SCALAR, max_size=3), SCALAR)
async def test_any_value_is_found_again(store: Store, metadata: dict[str, Scalar], other: Scalar) -> None:
    """What was stored is found by all of it and by each value, and not by another value."""
    (number,) = await _say(store, metadata)
    assert number in await store.numbers_with_metadata(metadata, scope=ANN)
    for key, value in metadata.items():
        assert number in await store.numbers_with_metadata({key: value}, scope=ANN)
        if repr(value) != repr(other):
            assert number not in await store.numbers_with_metadata({key: other}, scope=ANN)
