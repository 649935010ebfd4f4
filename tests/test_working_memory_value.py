"""The value of a working memory: keys, attributes, and what it refuses to be."""

import copy
import pickle
from datetime import UTC, datetime

import pytest

from recollect import InvalidArgumentError, WorkingMemory
from recollect.working_memory import MAX_BYTES, encode_fields


def test_fields_read_as_keys_and_as_attributes() -> None:
    """Both give the same; a known field that holds nothing is None and is not counted."""
    memory = WorkingMemory({"name": "Ann"}, fields=["name", "city"])
    assert memory.name == memory["name"] == "Ann"
    assert memory.city is None
    assert memory["city"] is None
    assert "city" not in memory
    assert (list(memory), len(memory), dict(memory)) == (["name"], 1, {"name": "Ann"})
    assert memory == {"name": "Ann"}
    assert not WorkingMemory()


def test_unknown_field_is_an_error() -> None:
    """A misspelt name is not taken for an empty field."""
    memory = WorkingMemory({"name": "Ann"}, fields=["name"])
    with pytest.raises(AttributeError, match="no field 'nmae'"):
        _ = memory.nmae
    with pytest.raises(KeyError, match="nmae"):
        _ = memory["nmae"]


def test_field_with_the_name_of_an_attribute_reads_as_a_key() -> None:
    """The value's own attributes come first."""
    memory = WorkingMemory({"version": "ours", "items": 5}, version=7)
    assert (memory.version, memory["version"], memory["items"]) == (7, "ours", 5)


def test_value_says_where_it_comes_from() -> None:
    """Version, time and run are kept when the fields become known; the repr shows the fields."""
    time = datetime(2030, 1, 1, tzinfo=UTC)
    memory = WorkingMemory({"a": 1}, version=2, updated_at=time, run_id="r").with_fields(["a", "b"])
    assert (memory.version, memory.updated_at, memory.run_id, memory.b) == (2, time, "r", None)
    assert repr(memory) == "WorkingMemory({'a': 1}, version=2)"


def test_value_can_be_copied() -> None:
    """Copying and pickling do not mistake their own look-ups for fields."""
    memory = WorkingMemory({"a": 1}, version=2)
    for twin in (copy.copy(memory), copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):  # noqa: S301 - made here
        assert (twin, twin.version) == ({"a": 1}, 2)


def test_changing_what_to_dict_gives_leaves_the_value() -> None:
    """A value does not change."""
    memory = WorkingMemory({"a": 1})
    memory.to_dict()["a"] = 2
    assert memory["a"] == 1


@pytest.mark.parametrize(
    "values", [{"a": "x" * MAX_BYTES}, {"a": "ä" * (MAX_BYTES // 2)}, {"x" * MAX_BYTES: 1}]
)
def test_too_much_is_refused(values: dict[str, object]) -> None:
    """Every prompt contains it, so it has a limit, in bytes."""
    with pytest.raises(InvalidArgumentError, match="every prompt contains it"):
        encode_fields(values, "patch")
