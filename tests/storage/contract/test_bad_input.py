"""What a store promises about bad input: an error that names the argument, and nothing written.

A table names the wrong values of every argument of every method; a method or an argument that is not
in it fails a test, so that what is added later is covered too.
"""

import inspect
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.storage.contract.samples import ANN, Values, exported, keep_every_kind, nested, said
from tests.support.tenants import BAD_TENANTS

from recollect.errors import InvalidArgumentError
from recollect.messages import Message
from recollect.scope import Scope
from recollect.storage.records import MessageTerms
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio

CYCLE: dict[str, object] = {}
CYCLE["self"] = CYCLE

IDS: Values = ("", "x" * 513, "é" * 257, "a\0b", "\ud800", "ok\udfff", 5, True, b"x", [])
NO_ID: Values = (*IDS, None)
NUMBERS: Values = (-1, 2**63, True, 1.0, "1", [])
NO_NUMBER: Values = (*NUMBERS, None)
TEXTS: Values = ("a\0b", "\ud800", "ok\udfff", 5, b"x", [])
NOT_JSON: Values = (
    {"a": float("nan")},
    {"a": [float("inf")]},
    {"a": {"b": {1, 2}}},
    {"a": object()},
    {"a": b"x"},
    {"a": "x\0"},
    {"a": "\ud800"},
    {"\ud800": 1},
    {"\0": 1},
    {1: "x"},
    {None: "x"},
    {"a": nested(70)},
    CYCLE,
    {"a": 10**5000},
)
NOT_OBJECTS: Values = ([], [1], "x", "", 0, 5, True, (("a", 1),))

TERMS = MessageTerms(1, asks=False, term_hashes=bytes(4), term_counts=bytes(1))
WRONG_TERMS: Values = (
    None,
    5,
    "text",
    b"x",
    [],
    [None],
    [(1, False, bytes(4), bytes(1))],
    [replace(TERMS, number=-1)],
    [replace(TERMS, term_hashes=bytes(3))],
    [replace(TERMS, term_counts=bytes(2))],
    [replace(TERMS, vectors=[b""])],
    [replace(TERMS, vectors=[bytes(3)])],
    [replace(TERMS, vectors=[bytes(2), bytes(4)])],
    [replace(TERMS, vectors=[bytes(2)] * 257)],
    [TERMS] * 2,
    [replace(TERMS, number=number) for number in range(1001)],
)
TIMES: Values = (5, "2026-01-01", datetime(2026, 1, 1), "tomorrow", [])  # noqa: DTZ001 - no time zone
SOON = datetime(9000, 1, 1, tzinfo=UTC)

VALID: dict[str, dict[str, Any]] = {
    "append_turn": {"messages": said("new"), "run_id": "run", "expires_at": SOON, "erase_epoch": None},
    "last_messages": {"limit": 1},
    "read_for_run": {"limit": 1},
    "messages_before": {"message_id": "hi", "limit": 1},
    "messages_after": {"message_id": "hi", "limit": 1},
    "page_of_messages": {"limit": 1, "offset": 0},
    "messages_by_id": {"ids": ["hi"], "with_previous": 1, "with_next": 1},
    "user_history": {"limit": 1, "offset": 0},
    "count_user_history": {},
    "turn_of_run": {"run_id": "run"},
    "delete_messages": {"ids": ["hi"]},
    "delete_message_number": {"number": 1, "tenant_id": 1},
    "list_users": {"after": "a", "limit": 1, "tenant_id": 1},
    "clear_history": {},
    "create_thread": {"title": "x", "metadata": {}},
    "get_thread": {},
    "list_threads": {"limit": 1, "offset": 0},
    "update_thread": {"title": "x", "metadata": {}},
    "delete_thread": {},
    "messages_by_number": {"numbers": [1]},
    "search_rows": {"after": 0, "vectors_from": 0, "vectors_of": [1], "limit": 1},
    "unindexed_messages": {"model_id": "m", "after": 0, "limit": 1, "any_model": True},
    "count_unindexed": {"model_id": "m", "any_model": True, "limit": 1},
    "numbers_with_metadata": {"metadata": {"a": 1}},
    "put_search_rows": {
        "messages": [replace(TERMS, vectors=[bytes(4)])],
        "model_id": "m",
        "erase_epoch": 0,
        "replace": False,
    },
    "prune": {"before": SOON, "dry_run": False},
    "set_memory": {"key": "new", "value": {}},
    "get_memory": {"key": "likes"},
    "list_memory": {},
    "delete_memory": {"key": "likes"},
    "clear_memory": {},
    "set_state": {"mode": "new"},
    "get_state": {},
    "delete_state": {},
    "get_working_memory": {},
    "update_working_memory": {
        "patch": {"new": 1},
        "strategy": "merge",
        "expected_version": None,
        "seen_version": 0,
        "epoch": None,
        "erase_epoch": None,
        "run_id": "run",
        "check": None,
    },
    "working_memory_history": {"limit": 1},
    "restore_working_memory": {"version": 1},
    "clear_working_memory": {},
    "add_event": {"name": "new", "payload": {"a": 1}, "run_id": "run"},
    "list_events": {"limit": 1, "offset": 0, "name": "recalled", "run_id": "run 1"},
    "epoch": {},
    "erase_epoch": {},
    "pin_epoch": {"erase_epoch": None},
    "pin_erase_epoch": {},
    "export": {},
    "import_": {"lines": [], "merge": False},
    "erase": {},
}
"""Every method of the store with arguments that it takes."""

WRONG: dict[str, dict[str, Values]] = {
    "append_turn": {
        "messages": (None, 5, "text", b"x", {}, [], [None], ["text"], [{}], Message("user", "x")),
        "run_id": IDS,
        "expires_at": (*TIMES, datetime(2029, 12, 31, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)),
        "erase_epoch": NUMBERS,
    },
    "last_messages": {"limit": NUMBERS},
    "read_for_run": {"limit": NUMBERS},
    "messages_before": {"message_id": NO_ID, "limit": NUMBERS},
    "messages_after": {"message_id": NO_ID, "limit": NUMBERS},
    "page_of_messages": {"limit": (*NO_NUMBER, 0), "offset": NO_NUMBER},
    "messages_by_id": {
        "ids": (None, 5, "hi", b"hi", ["x"] * 1001, *([value] for value in NO_ID)),
        "with_previous": (*NO_NUMBER, 1001),
        "with_next": (*NO_NUMBER, 1001),
    },
    "user_history": {"limit": NUMBERS, "offset": NO_NUMBER},
    "turn_of_run": {"run_id": NO_ID},
    "delete_messages": {"ids": (None, 5, "hi", b"hi", ["x"] * 1001, *(["hi", value] for value in NO_ID))},
    "delete_message_number": {"number": NO_NUMBER, "tenant_id": BAD_TENANTS},
    "list_users": {"after": IDS, "limit": (*NO_NUMBER, 1001), "tenant_id": BAD_TENANTS},
    "create_thread": {"title": TEXTS, "metadata": (*NOT_OBJECTS, *NOT_JSON)},
    "list_threads": {"limit": NUMBERS, "offset": NO_NUMBER},
    "update_thread": {"title": TEXTS, "metadata": (*NOT_OBJECTS, *NOT_JSON)},
    "messages_by_number": {"numbers": (None, 5, "1", b"1", ["x"], [-1], [None], [1.0], [0] * 1001)},
    "search_rows": {
        "after": NO_NUMBER,
        "vectors_from": NUMBERS,
        "vectors_of": tuple([value] for value in NO_NUMBER),
        "limit": NUMBERS,
    },
    "unindexed_messages": {"model_id": IDS, "after": NO_NUMBER, "limit": (*NO_NUMBER, 1001)},
    "count_unindexed": {"model_id": IDS, "limit": NUMBERS},
    "numbers_with_metadata": {"metadata": (None, *NOT_OBJECTS, *NOT_JSON, {"a": []}, {"a": {}}, {"a": (1,)})},
    "put_search_rows": {
        "messages": WRONG_TERMS,
        "model_id": NO_ID,
        "erase_epoch": NO_NUMBER,
        "replace": (None, 0, 1, "yes", []),
    },
    "prune": {"before": (None, *TIMES), "dry_run": (None, 0, 1, "yes", [])},
    "set_memory": {"key": NO_ID, "value": (None, *NOT_OBJECTS, *NOT_JSON)},
    "get_memory": {"key": NO_ID},
    "delete_memory": {"key": NO_ID},
    "set_state": {"mode": NO_ID},
    "update_working_memory": {
        "patch": (None, *NOT_OBJECTS, *NOT_JSON, {"a": "x" * 1_000_000}),
        "strategy": ("", "both", "Merge", None, 5, []),
        "expected_version": NUMBERS,
        "seen_version": NUMBERS,
        "epoch": NUMBERS,
        "erase_epoch": NUMBERS,
        "run_id": IDS,
        "check": (5, "text", {}, []),
    },
    "pin_epoch": {"erase_epoch": NUMBERS},
    "working_memory_history": {"limit": NUMBERS},
    "restore_working_memory": {"version": (0, *NO_NUMBER)},
    "add_event": {"name": NO_ID, "payload": (None, *NOT_OBJECTS, *NOT_JSON), "run_id": IDS},
    "list_events": {"limit": NUMBERS, "offset": NO_NUMBER, "name": IDS, "run_id": IDS},
}
"""The values that each argument refuses; the scope and the lines of an import have tests of their own."""

OTHER_RULES = {
    "import_": {"lines", "merge"},
    "unindexed_messages": {"any_model"},
    "count_unindexed": {"any_model"},
}
OF_THE_WHOLE_STORE = ("close", "ping", "purge")
OF_A_TENANT = ("delete_message_number", "list_users")
OF_ONE_THREAD = (
    "append_turn",
    "last_messages",
    "read_for_run",
    "messages_before",
    "messages_after",
    "page_of_messages",
    "create_thread",
    "get_thread",
    "update_thread",
    "delete_thread",
    "add_event",
)


async def test_table_names_every_method_and_argument(store: Store) -> None:
    """A method or an argument that is new in the store has to be added to the table."""
    methods = _public_methods(type(store))
    assert set(VALID) == set(methods)
    for name, method in methods.items():
        arguments = set(inspect.signature(method).parameters) - {"self", "scope"}
        assert arguments == set(VALID[name])
        assert arguments == set(WRONG.get(name, ())) | OTHER_RULES.get(name, set())


@pytest.mark.parametrize("method", WRONG)
async def test_wrong_value_is_refused_and_nothing_is_written(store: Store, method: str) -> None:
    """The error is of our own type and names the argument; the user's data stay as they were."""
    await keep_every_kind(store)
    before = await exported(store)
    for argument, values in WRONG[method].items():
        for value in values:
            with pytest.raises(InvalidArgumentError) as raised:
                await _call(store, method, {argument: value})
            assert argument in raised.value.argument, f"{raised.value} does not name {argument}"
    assert await exported(store) == before


async def test_valid_arguments_are_accepted(store: Store) -> None:
    """The calls that the other tests spoil are valid themselves."""
    lines = await exported(store)
    for method in VALID:
        if method == "import_":
            await _call(store, method, {"lines": lines}, Scope(1, "empty"))
        else:
            await keep_every_kind(store)
            await _call(store, method, {}, _place_of(method))


async def test_scope_is_refused_when_it_names_no_thread(store: Store) -> None:
    """What works on one thread does not take all of them."""
    await keep_every_kind(store)
    before = await exported(store)
    for method in OF_ONE_THREAD:
        with pytest.raises(InvalidArgumentError, match="thread") as raised:
            await _call(store, method, {}, ANN.with_thread(None))
        assert raised.value.argument == "scope"
        assert await exported(store) == before


async def test_scope_must_be_given_by_name(store: Store) -> None:
    """Leaving the scope out, or passing it by position, is a type error and never means "all"."""
    for name, method in _public_methods(type(store)).items():
        parameters = inspect.signature(method).parameters
        scope = parameters["tenant_id" if name in OF_A_TENANT else "scope"]
        assert scope.kind is inspect.Parameter.KEYWORD_ONLY
        assert scope.default is inspect.Parameter.empty


async def test_turn_is_refused_whole_when_one_message_is_wrong(store: Store) -> None:
    """A good message before a bad one is not written."""
    wrong: Any = [*said("good"), "bad"]
    with pytest.raises(InvalidArgumentError):
        await store.append_turn(wrong, scope=ANN)
    assert len(await exported(store)) == 2


async def test_message_is_refused_when_its_json_was_spoilt_later(store: Store) -> None:
    """What was put into metadata after the message was made is an error of our own."""
    inner: list[object] = []
    message = Message("user", "x", metadata={"a": inner})
    inner.append({1, 2})
    try:
        await store.append_turn([message], scope=ANN)
    except InvalidArgumentError:
        assert len(await exported(store)) == 2
    else:
        assert (await store.last_messages(1, scope=ANN))[0].metadata == {"a": []}


def _public_methods(store: type[Store]) -> dict[str, Any]:
    return {
        name: method
        for name, method in inspect.getmembers(store, inspect.isroutine)
        if not name.startswith("_") and name not in OF_THE_WHOLE_STORE
    }


def _place_of(method: str) -> Scope:
    return ANN.with_thread(None) if method == "restore_working_memory" else ANN


async def _call(store: Store, method: str, changes: dict[str, Any], scope: Scope = ANN) -> None:
    arguments = VALID[method] | changes
    if method not in OF_A_TENANT:
        arguments["scope"] = scope
    answer = getattr(store, method)(**arguments)
    if inspect.isasyncgen(answer):
        answer = anext(answer)
    await answer
