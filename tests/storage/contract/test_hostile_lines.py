"""What a store promises about imports that are truncated, garbled or forged: errors, and nothing written."""

import json
from typing import Any, TypeAlias

import pytest
from tests.storage.contract.samples import ANN, BOB, Values, exported, keep_every_kind, nested, said

from recollect.errors import InvalidArgumentError
from recollect.scope import Scope
from recollect.storage.store import Store
from recollect.testing import ScriptedClock

pytestmark = pytest.mark.anyio

Record: TypeAlias = dict[str, Any]
"""One line of an export, read as JSON."""

HEAD = '{"kind":"export","format":1,"tenant_id":1,"user_id":"ann"}'

THREAD: Record = {
    "kind": "thread",
    "app_id": "default",
    "project_id": "default",
    "id": "t",
    "title": "Chat",
    "metadata": {},
    "created_at": "2030-01-01T00:00:00+00:00",
    "updated_at": "2030-01-01T00:00:00+00:00",
    "next_position": 9,
}
MESSAGE: Record = {
    "kind": "message",
    "app_id": "default",
    "project_id": "default",
    "thread_id": "t",
    "position": 1,
    "id": "m",
    "role": "assistant",
    "origin": "response",
    "content": [
        {"type": "text", "text": "looking"},
        {"type": "tool_call", "id": "c", "name": "tool", "arguments": {}},
    ],
    "metadata": {},
    "created_at": "2030-01-01T00:00:00+00:00",
    "run_id": "run",
}
MEMORY: Record = {
    "kind": "memory",
    "key": "k",
    "value": {"a": 1},
    "updated_at": "2030-01-01T00:00:00+00:00",
}
STATE: Record = {"kind": "state", "mode": "active", "updated_at": "2030-01-01T00:00:00+00:00"}
WORKING_MEMORY: Record = {
    "kind": "working_memory",
    "app_id": "default",
    "project_id": "default",
    "thread_id": "t",
    "version": 3,
    "value": {"a": 1},
    "run_id": None,
    "updated_at": "2030-01-01T00:00:00+00:00",
}
EVENT: Record = {
    "kind": "event",
    "app_id": "default",
    "project_id": "default",
    "thread_id": "of no thread",
    "name": "recalled",
    "run_id": None,
    "payload": {"a": 1},
    "context_visible": False,
    "created_at": "2030-01-01T00:00:00+00:00",
}
WHOLE = (THREAD, MESSAGE, MEMORY, STATE, WORKING_MEMORY, EVENT)

LONG = "x" * 513
TIMES: Values = (
    "",
    "yesterday",
    5,
    None,
    [],
    "2030-01-01",
    "2030-01-01T00:00:00",
    "2030-13-01T00:00:00+00:00",
)
TOO_FAR: Values = ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00")
IDS: Values = ("", LONG, "a\0b", "\ud800", 5, None, [], {})
OBJECTS: Values = (
    [],
    "x",
    5,
    {"a": float("nan")},
    {"a": float("inf")},
    {"\ud800": 1},
    {"a": "\0"},
    {"a": "\udfff"},
)
NUMBERS: Values = (0, -1, 1.0, True, "1", None, [], 2**63)

KINDS: Values = ("export", "end", "", "x", None, 5, [], {}, "x" * 10_000)

WRONG_FIELDS: dict[str, dict[str, Values]] = {
    "thread": {
        "kind": KINDS,
        "app_id": IDS,
        "project_id": IDS,
        "id": IDS,
        "title": ("a\0b", "\ud800", 5, None, []),
        "metadata": (*OBJECTS, None),
        "created_at": TIMES + TOO_FAR,
        "updated_at": TIMES + TOO_FAR,
        "next_position": (*NUMBERS, 2**63 - 1),
    },
    "message": {
        "kind": KINDS,
        "app_id": (*IDS, "unknown"),
        "project_id": (*IDS, "unknown"),
        "thread_id": (*IDS, "unknown"),
        "position": (*NUMBERS, 9, 10),
        "id": IDS,
        "role": ("", "robot", "User", None, 5, [], {}),
        "origin": ("", "mars", 5, [], {}),
        "content": ("a\0b", "\ud800", None, 5, {}, [5], ["x"], [[]], [{}]),
        "metadata": OBJECTS,
        "created_at": TIMES + TOO_FAR,
        "run_id": ("", LONG, "a\0b", "\ud800", 5, [], {}),
    },
    "memory": {"kind": KINDS, "key": IDS, "value": (*OBJECTS, None), "updated_at": TIMES + TOO_FAR},
    "state": {"kind": KINDS, "mode": IDS, "updated_at": TIMES + TOO_FAR},
    "working_memory": {
        "kind": KINDS,
        "app_id": IDS,
        "project_id": IDS,
        "thread_id": IDS,
        "version": (*NUMBERS, 2**63 - 1),
        "value": (*OBJECTS, None, {"a": "x" * 70_000}),
        "run_id": ("", LONG, "a\0b", "\ud800", 5, [], {}),
        "updated_at": TIMES + TOO_FAR,
    },
    "event": {
        "kind": KINDS,
        "app_id": IDS,
        "project_id": IDS,
        "thread_id": IDS,
        "name": IDS,
        "run_id": ("", LONG, "a\0b", "\ud800", 5, [], {}),
        "payload": (*OBJECTS, None),
        "context_visible": (True, None, 0, "false"),
        "created_at": TIMES + TOO_FAR,
    },
}
"""The values that each field of each kind of line refuses."""

WRONG_PARTS: list[Record] = [
    {"type": "text"},
    {"type": "text", "text": 5},
    {"type": "text", "text": "a\0b"},
    {"type": "text", "text": "x", "more": 1},
    {"type": [], "text": "x"},
    {"type": "poem", "text": "x"},
    {"type": "tool_call", "id": "", "name": "tool"},
    {"type": "tool_call", "id": "c", "name": 5},
    {"type": "tool_call", "id": "c", "name": "tool", "arguments": []},
    {"type": "tool_call", "id": "c", "name": "tool", "arguments": {"a": float("nan")}},
    {"type": "tool_result", "call_id": None, "name": "tool"},
    {"type": "tool_result", "call_id": "c", "name": "tool", "content": "\ud800"},
    {"type": "tool_result", "call_id": "c", "name": "tool", "is_error": "no"},
    {"type": "reasoning", "text": None},
    {"type": "reasoning", "text": "x", "signature": 5},
    {"type": "file", "media_type": "image/png"},
    {"type": "file", "media_type": "image/png", "url": "x", "data": "x"},
    {"type": "file", "media_type": "", "url": "x"},
]

NOT_JSON = (
    "{",
    "nonsense",
    '{"kind":"state"',
    "[]",
    "5",
    "null",
    '"text"',
    "[" * 100_000,
    "1" * 5000,
    "\ud800",
)


def _kind(record: Record) -> str:
    return record["kind"]


async def test_handwritten_export_is_read(store: Store) -> None:
    """The lines that the other tests spoil are valid themselves."""
    counts = await store.import_(_lines(*WHOLE), scope=ANN)
    assert counts == {
        "threads": 1,
        "messages": 1,
        "user_memory": 1,
        "user_state": 1,
        "working_memory": 1,
        "events": 1,
    }


async def test_export_is_refused_when_it_was_cut(store: Store) -> None:
    """However many lines are missing at the end or in the middle, it is noticed."""
    await keep_every_kind(store, BOB)
    lines = await exported(store, BOB)
    for count in range(len(lines)):
        await _refused(store, lines[:count])
        await _refused(store, lines[:count] + lines[count + 1 :])


async def test_export_is_refused_when_a_line_was_cut(store: Store) -> None:
    """Half a line is an error that names the line."""
    await keep_every_kind(store, BOB)
    lines = await exported(store, BOB)
    for index, line in enumerate(lines):
        for cut in (1, len(line) // 2, len(line) - 1):
            cut_lines = [*lines[:index], line[:cut], *lines[index + 1 :]]
            await _refused(store, cut_lines, line=index + 1)


async def test_export_is_refused_when_a_line_is_no_json_object(store: Store) -> None:
    """Garbage is an error that names the line, blank lines counted."""
    for text in NOT_JSON:
        await _refused(store, [HEAD, "", text, '{"kind":"end","lines":1}'], line=3)


@pytest.mark.parametrize("record", WHOLE, ids=_kind)
async def test_line_is_refused_when_a_field_is_wrong(store: Store, record: Record) -> None:
    """Every rule for arguments holds for the lines of an import too."""
    fields = WRONG_FIELDS[record["kind"]]
    assert fields.keys() == record.keys()
    for name, values in fields.items():
        for value in values:
            records = [r | {name: value} if r is record else r for r in WHOLE]
            await _refused(store, _lines(*records), line=_line_of(record))


async def test_line_is_refused_when_a_field_is_missing(store: Store) -> None:
    """No field of any line can be left out."""
    for record in WHOLE:
        for name in record:
            short = {key: value for key, value in record.items() if key != name}
            records = [short if r is record else r for r in WHOLE]
            await _refused(store, _lines(*records), line=_line_of(record))


async def test_line_is_refused_when_a_part_is_wrong(store: Store) -> None:
    """The parts of a message are checked like those of a new one."""
    for part in WRONG_PARTS:
        message = MESSAGE | {"content": [{"type": "text", "text": "fine"}, part]}
        await _refused(store, _lines(THREAD, message), line=3)


async def test_line_is_refused_when_json_is_nested_too_deep(store: Store) -> None:
    """Nesting is bounded in memory values, metadata and tool arguments alike."""
    deep = nested(100)
    argument = {"type": "tool_call", "id": "c", "name": "tool", "arguments": {"a": deep}}
    await _refused(store, _lines(THREAD, MESSAGE | {"content": [argument]}), line=3)
    await _refused(store, _lines(THREAD | {"metadata": {"a": deep}}), line=2)
    await _refused(store, _lines(MEMORY | {"value": {"a": deep}}), line=2)


@pytest.mark.parametrize("record", WHOLE[:-1], ids=_kind)  # events may be alike
async def test_line_is_refused_when_it_is_there_twice(store: Store, record: Record) -> None:
    """A thread, a message id, a memory key, a state or a version can come only once."""
    again = record | {"position": 2} if record is MESSAGE else record
    await _refused(store, _lines(*WHOLE, again), line=8)


async def test_message_is_refused_when_two_threads_have_its_id(store: Store) -> None:
    """An id is used once in all threads of an app, in an export too."""
    other = MESSAGE | {"thread_id": "u"}
    await _refused(store, _lines(THREAD, THREAD | {"id": "u"}, MESSAGE, other), line=5)


async def test_message_of_the_same_id_in_another_app_is_read(store: Store) -> None:
    """Apps and projects have ids of their own."""
    other = {"app_id": "other"}
    counts = await store.import_(_lines(THREAD, THREAD | other, MESSAGE, MESSAGE | other), scope=ANN)
    assert counts["messages"] == 2


async def test_message_is_refused_when_it_stands_before_its_thread_or_out_of_order(store: Store) -> None:
    """Threads come first, and positions only grow."""
    second = MESSAGE | {"id": "n", "position": 2}
    await _refused(store, _lines(MESSAGE, THREAD), line=2)
    await _refused(store, _lines(THREAD, second, MESSAGE), line=4)
    await _refused(store, _lines(THREAD, MESSAGE, second | {"position": 1}), line=4)


async def test_working_memory_is_refused_when_versions_are_out_of_order_or_too_many(store: Store) -> None:
    """Versions only grow, and there are no more of them than are kept."""
    await _refused(store, _lines(WORKING_MEMORY, WORKING_MEMORY | {"version": 2}), line=3)
    many = [WORKING_MEMORY | {"version": version} for version in range(1, 102)]
    await _refused(store, _lines(*many), line=102)
    assert (await store.import_(_lines(*many[:100]), scope=ANN))["working_memory"] == 100


async def test_export_is_refused_when_its_frame_is_wrong(store: Store) -> None:
    """An export of another format or program, or one that counts otherwise, is not read."""
    for head in ('{"kind":"export","format":2}', '{"kind":"export"}', '{"format":1}', "{}"):
        await _refused(store, [head, '{"kind":"end","lines":0}'])
    for end in ('{"kind":"end"}', '{"kind":"end","lines":1}', '{"kind":"end","lines":"0"}'):
        await _refused(store, [HEAD, end])


async def test_import_is_refused_when_the_lines_are_no_texts(store: Store) -> None:
    """One text, bytes or anything else in place of lines is an error of our own."""
    wrong: list[Any] = [None, 5, HEAD, HEAD.encode(), [5], [None], [["x"]]]
    for lines in wrong:
        await _refused(store, lines)


async def test_merge_is_refused_by_the_same_rules(store: Store, clock: ScriptedClock) -> None:
    """A wrong line leaves a user with much data as it was."""
    await keep_every_kind(store)
    before = await exported(store)
    clock.tick()
    records = (THREAD, MESSAGE, MEMORY, STATE | {"mode": ""})
    with pytest.raises(InvalidArgumentError, match="line 5"):
        await store.import_(_lines(*records), merge=True, scope=ANN)
    assert await exported(store) == before


async def test_store_works_on_after_refusals(store: Store) -> None:
    """A refused import stands in nobody's way."""
    await _refused(store, _lines(*WHOLE)[:-1])
    await store.append_turn(said("a"), scope=ANN)
    assert await store.count_user_history(scope=ANN) == 1


def _lines(*records: Record) -> list[str]:
    return [HEAD, *map(_line, records), json.dumps({"kind": "end", "lines": len(records)})]


def _line(record: Record) -> str:
    return json.dumps(record)


def _line_of(record: Record) -> int:
    return WHOLE.index(record) + 2


async def _refused(store: Store, lines: list[str], *, line: int | None = None) -> None:
    """Make sure that an import is refused, by line where one is given, and writes nothing."""
    scope = Scope(3, "nobody yet")
    with pytest.raises(InvalidArgumentError) as raised:
        await store.import_(lines, scope=scope)
    assert raised.value.argument == "lines"
    assert line is None or f"line {line}:" in raised.value.problem
    assert len(str(raised.value)) < 1000
    assert len(await exported(store, scope)) == 2
