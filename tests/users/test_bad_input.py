"""What the functions for users reject: the error names the argument, and nothing is stored."""

import inspect
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

import pytest
from tests.support.tenants import BAD_TENANTS
from tests.users.calls import Call

from recollect import InvalidArgumentError, RecollectError
from recollect.users import Users

Values: TypeAlias = tuple[object, ...]

IDS: Values = ("", "x" * 513, "é" * 257, "a\0b", "\ud800", 5, None, b"x")
NUMBERS: Values = (-1, True, 1.0, "1", 2**63, [])
VALUES: Values = (
    None,
    [],
    "text",
    5,
    {"a": float("nan")},
    {"a": float("-inf")},
    {"a": {1}},
    {"a": b"x"},
    {1: "x"},
    {"a": "\0"},
    {"\udfff": 1},
    {"a": 10**5000},
)
TEXTS: Values = ("", "a\0b", "\ud800", 5, None, b"x")
TIMES: Values = (
    "2030-05-06",
    5,
    True,
    datetime(2030, 5, 6),  # noqa: DTZ001 - without a time zone
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
)

WRONG: dict[str, Values] = {
    "user_id": IDS,
    "tenant_id": BAD_TENANTS,
    "key": IDS,
    "mode": IDS,
    "content": TEXTS,
    "value": VALUES,
    "limit": NUMBERS,
    "offset": (*NUMBERS, None),
    "count": (*NUMBERS, None),
    "message_id": (*NUMBERS, None),
    "role": ("system", "", None),
    "metadata": tuple(value for value in VALUES if value is not None),
    "id": tuple(value for value in IDS if value is not None),
    "created_at": TIMES,
    "expires_at": (*TIMES, datetime(2020, 1, 1, tzinfo=UTC)),
}
VALID: dict[str, object] = {
    "user_id": "ann",
    "tenant_id": 1,
    "key": "key",
    "mode": "active",
    "content": "text",
    "value": {},
    "limit": 1,
    "offset": 0,
    "count": 1,
    "message_id": 1,
    "role": "user",
    "metadata": {},
    "id": None,
    "created_at": None,
    "expires_at": None,
}

METHODS = [
    name
    for name, _ in inspect.getmembers(Users, inspect.iscoroutinefunction)
    if not name.startswith("_") and name != "close"
]


def _keep(call: Call) -> list[object]:
    call(Users.add_message, "ann", "user", "kept", 1)
    call(Users.set_memory, "ann", "key", {"kept": True}, 1)
    call(Users.set_user_state, "ann", "kept", 1)
    return _kept(call)


def _kept(call: Call) -> list[object]:
    return [
        call(Users.get_conversation_history, "ann", 1),
        call(Users.get_all_memory, "ann", 1),
        call(Users.get_user_state, "ann", 1),
    ]


def _refused(call: Call, name: str, argument: str, value: object) -> None:
    method: Any = getattr(Users, name)
    given = {key: VALID[key] for key in inspect.signature(method).parameters if key != "self"}
    with pytest.raises(InvalidArgumentError) as raised:
        call(method, **(given | {argument: value}))
    assert argument in raised.value.argument, f"{raised.value} does not name {argument}"


def test_every_argument_is_checked_before_anything_is_stored(call: Call) -> None:
    """No function takes a wrong value for any of its arguments, and none of them changes anything."""
    before = _keep(call)
    for name in METHODS:
        for argument in inspect.signature(getattr(Users, name)).parameters:
            for value in WRONG.get(argument, ()):
                _refused(call, name, argument, value)
    assert _kept(call) == before


def test_table_names_every_argument() -> None:
    """An argument that is new in the functions has to be added to the table."""
    arguments = {a for name in METHODS for a in inspect.signature(getattr(Users, name)).parameters}
    assert arguments - {"self"} == set(WRONG) == set(VALID)
    assert len(METHODS) == 14


def test_tenant_must_be_written_out(call: Call) -> None:
    """No function has a default for the tenant: leaving it out is a type error."""
    for name in METHODS:
        parameter = inspect.signature(getattr(Users, name)).parameters["tenant_id"]
        assert parameter.default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="tenant_id"):
        call(Users.count_messages, "ann")  # pyright: ignore[reportCallIssue] - wrong on purpose


def test_one_base_error_catches_all(call: Call) -> None:
    """`RecollectError` catches what the functions raise, whatever it is."""
    with pytest.raises(RecollectError):
        call(Users.add_message, "ann", "robot", "x", tenant_id=1)
    with pytest.raises(RecollectError):
        call(Users.delete_memory, "ann", "unknown", tenant_id=1)
    assert not issubclass(RecollectError, MemoryError)
