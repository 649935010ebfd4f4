"""What is stored comes back exactly: text, JSON, times, messages and ids of every legal kind.

`==` is not enough: it takes 1 for 1.0, 0.0 for -0.0 and any order of keys, so values are compared as JSON.
"""

import json
import random
from collections.abc import Generator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.storage import readings
from tests.storage.opened import ENGINES, OpenStore, open_for_examples
from tests.support.profiles import examples

from recollect import (
    FilePart,
    InvalidArgumentError,
    Message,
    ReasoningPart,
    Scope,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.messages import ORIGINS, ROLES, Part, part_to_dict
from recollect.validation import MAX_ID_BYTES, MAX_INT, MAX_JSON_DEPTH

EXAMPLES = settings(examples(0.4), suppress_health_check=[HealthCheck.too_slow])
DAY = timedelta(days=1)
SURROGATES = range(0xD800, 0xE000)

CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXT = st.text(CHARACTERS, max_size=80)
LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((2**53 + 1, 2**63, -(2**64), 10**60)),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=4)
AWKWARD: dict[str, object] = {
    "z": -0.0,
    "a": [1e308, 5e-324, 2.2250738585072014e-308, 1.0, 1, True],
    "m": {"": 2**63, " ": -(2**63) - 1, "10": 10**4299},
    "\u2028": '\\u0000 \\ud800 " \x1f \x7f \ufffe \U0010ffff',
}

SHORT = st.text(CHARACTERS, min_size=1, max_size=40)
LONG = st.text(CHARACTERS, min_size=1, max_size=MAX_ID_BYTES // 4)
HOSTILE = (
    *(
        "'",
        '"',
        "%",
        "%s",
        "%(user_id)s",
        ":user_id",
        "$1",
        "{this_user}",
        "\\",
        "a\tb\nc",
        "NULL",
        "0",
        "\x7f",
    ),
    *(
        " lead",
        "trail ",
        "   ",
        "A",
        "a",
        "é",
        "e\u0301",
        "ﬁ",
        "fi",
        "\ufeffbom",
        "\u202eright",
        "\U0010ffff",
    ),
    *("'; DROP TABLE messages; --", "1 OR 1=1", "x" * MAX_ID_BYTES, "ß" * 256, "漢" * 170, "😀" * 128),
)
ID = st.sampled_from(HOSTILE) | SHORT | LONG
TENANT = st.none() | st.integers(1, 3) | st.integers(1, MAX_INT) | ID
SCOPE = st.builds(Scope, TENANT, ID, ID, ID, ID)

OFFSET = st.builds(timezone, st.timedeltas(timedelta(microseconds=1) - DAY, DAY - timedelta(microseconds=1)))
TIME = st.datetimes(timezones=OFFSET).filter(lambda time: _in_utc(time) is not None)
EDGES = (
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, 12, tzinfo=timezone(timedelta(hours=14, microseconds=1))),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=14))),
)
TIMES = TIME | st.sampled_from(EDGES)

FILE = st.builds(FilePart, SHORT, url=TEXT, name=st.none() | TEXT) | st.builds(FilePart, SHORT, data=TEXT)
PART: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, TEXT),
    st.builds(ToolCall, SHORT, SHORT, OBJECT),
    st.builds(ToolResult, SHORT, SHORT, JSON, st.booleans()),
    st.builds(ReasoningPart, TEXT, st.none() | TEXT),
    FILE,
)
MESSAGE = st.builds(
    Message,
    st.sampled_from(ROLES),
    TEXT | st.lists(PART, max_size=4),
    id=ID,
    metadata=st.none() | OBJECT,
    created_at=TIMES,
    origin=st.none() | st.sampled_from(ORIGINS),
)
TURN = st.lists(MESSAGE, min_size=1, max_size=3, unique_by=lambda message: message.id)


@pytest.fixture(scope="module", params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Generator[OpenStore]:
    """A store on each engine in turn."""
    with open_for_examples(request.param, request) as store:
        yield store


@EXAMPLES
@given(text=TEXT)
@example(text="")
@example(text="\ufeff\u2028\u2029\x85\x1f\r\n\t \ufffe\uffff")
@example(text="x" * 100_000 + "é")
def test_text_comes_back_unchanged_when_it_is_said_or_a_title(opened: OpenStore, text: str) -> None:
    """No character of a message or of a title is lost, added, trimmed or normalised."""
    scope = Scope(1, opened.fresh(), "t")
    opened.run(opened.store.create_thread(title=text, scope=scope))
    opened.run(opened.store.append_turn([Message("user", text)], scope=scope))
    (message,) = opened.run(opened.store.last_messages(1, scope=scope))
    thread = opened.run(opened.store.get_thread(scope=scope))
    assert message.text == text
    assert thread is not None
    assert thread.title == text


@pytest.mark.parametrize("plane", range(17))
def test_every_character_comes_back_unchanged_when_it_may_be_stored(opened: OpenStore, plane: int) -> None:
    """All code points of Unicode but NUL and surrogates pass, in text as in JSON."""
    codes = range(max(1, plane << 16), (plane + 1) << 16)
    text = "".join(chr(code) for code in codes if code not in SURROGATES)
    scope = Scope(1, opened.fresh(), "t")
    opened.run(opened.store.append_turn([Message("user", text)], scope=scope))
    opened.run(opened.store.set_memory("k", {text: text}, scope=scope))
    (message,) = opened.run(opened.store.last_messages(1, scope=scope))
    entry = opened.run(opened.store.get_memory("k", scope=scope))
    assert message.text == text
    assert entry is not None
    assert entry.value == {text: text}


@EXAMPLES
@given(value=OBJECT)
@example(value={})
@example(value=AWKWARD)
@example(value={"deep": json.loads("[" * (MAX_JSON_DEPTH - 1) + "]" * (MAX_JSON_DEPTH - 1))})
def test_json_comes_back_unchanged_when_kept_as_memory_or_metadata(
    opened: OpenStore, value: dict[str, object]
) -> None:
    """Numbers keep their kind and every digit, and keys keep their order."""
    scope = Scope(1, opened.fresh(), "t")
    opened.run(opened.store.set_memory("k", value, scope=scope))
    opened.run(opened.store.create_thread(metadata=value, scope=scope))
    entry = opened.run(opened.store.get_memory("k", scope=scope))
    thread = opened.run(opened.store.get_thread(scope=scope))
    assert entry is not None
    assert thread is not None
    assert _exact(entry.value) == _exact(value)
    assert _exact(thread.metadata) == _exact(value)
    assert [_exact(item.value) for item in opened.run(opened.store.list_memory(scope=scope))] == [
        _exact(value)
    ]


@EXAMPLES
@given(said=TIMES, stored=TIMES)
@example(said=EDGES[0], stored=EDGES[1])
@example(said=EDGES[4], stored=EDGES[2])
def test_times_come_back_to_the_microsecond_when_given_in_any_zone(
    opened: OpenStore, said: datetime, stored: datetime
) -> None:
    """The same moment comes back in UTC, from the year 1 to the year 9999."""
    scope = Scope(1, opened.fresh(), "t")
    opened.clock.time = stored
    opened.run(opened.store.append_turn([Message("user", "x", created_at=said)], scope=scope))
    opened.run(opened.store.set_state("calm", scope=scope))
    (message,) = opened.run(opened.store.last_messages(1, scope=scope))
    thread = opened.run(opened.store.get_thread(scope=scope))
    state = opened.run(opened.store.get_state(scope=scope))
    assert thread is not None
    assert state is not None
    assert (message.created_at, thread.last_message_at) == (said, said)
    assert (thread.created_at, thread.updated_at, state.updated_at) == (stored, stored, stored)
    assert {time.tzinfo for time in (message.created_at, thread.created_at, state.updated_at)} == {UTC}


@given(seconds=st.integers(0, 3599), early=st.booleans())
def test_time_is_refused_when_utc_has_no_year_for_it(*, seconds: int, early: bool) -> None:
    """A moment before the year 1 or after 9999 in UTC could be stored but never read again."""
    edge = EDGES[0] + timedelta(seconds=seconds) if early else EDGES[1] - timedelta(seconds=seconds)
    time = edge.replace(tzinfo=timezone(timedelta(hours=1 if early else -1)))
    with pytest.raises(InvalidArgumentError, match="created_at"):
        Message("user", "x", created_at=time)


@EXAMPLES
@given(turn=TURN, run_id=st.none() | ID)
def test_messages_come_back_unchanged_when_they_have_parts_of_every_kind(
    opened: OpenStore, turn: list[Message], run_id: str | None
) -> None:
    """Role, origin, parts, metadata and time of each message are what they were."""
    scope = Scope(1, opened.fresh(), "t")
    places = opened.run(opened.store.append_turn(turn, scope=scope, run_id=run_id))
    messages = opened.run(opened.store.last_messages(None, scope=scope))
    assert messages == turn
    assert [_exact_message(message) for message in messages] == [_exact_message(message) for message in turn]
    assert [(message.position, message.number, True) for message in messages] == places
    assert {(message.thread_id, message.run_id) for message in messages} == {("t", run_id)}


@EXAMPLES
@given(scope=SCOPE, ids=st.lists(ID, min_size=2, max_size=2, unique=True), run_id=ID, key=ID, mode=ID)
def test_ids_are_themselves_when_they_look_like_anything_else(
    opened: OpenStore, *, scope: Scope, ids: list[str], run_id: str, key: str, mode: str
) -> None:
    """An id names exactly what was stored under it: no part of it is read as SQL, trimmed or folded."""
    store = opened.store
    opened.run(store.erase(scope=scope))
    turn = [Message("user", name, id=name) for name in ids]
    opened.run(store.append_turn(turn, scope=scope, run_id=run_id))
    opened.run(store.set_memory(key, {"key": key}, scope=scope))
    opened.run(store.set_state(mode, scope=scope))
    found = [opened.run(store.messages_by_id([name], scope=scope)) for name in ids]
    assert [[message.text for message in messages] for messages in found] == [[name] for name in ids]
    assert found[0][0].run_id == run_id
    assert [message.id for message in opened.run(store.messages_after(ids[0], 1, scope=scope))] == [ids[1]]
    (thread,) = opened.run(store.list_threads(scope=scope))
    assert Scope(thread.tenant_id, thread.user_id, thread.id, thread.app_id, thread.project_id) == scope
    entry, state = opened.run(store.get_memory(key, scope=scope)), opened.run(store.get_state(scope=scope))
    assert entry is not None
    assert state is not None
    assert (entry.key, entry.value, state.mode) == (key, {"key": key}, mode)
    assert opened.run(store.delete_messages([ids[0]], scope=scope)) == 1
    assert [message.id for message in opened.run(store.last_messages(None, scope=scope))] == [ids[1]]


def test_everything_is_found_when_all_ids_are_of_full_length(opened: OpenStore) -> None:
    """Ids of 512 bytes that cannot be compressed fit every key of both databases at once."""
    letters = random.Random(7)
    tenant, user, thread, app, project, first, second, key = (
        "".join(letters.choices([chr(code) for code in range(0x10000, 0x20000)], k=MAX_ID_BYTES // 4))
        for _ in range(8)
    )
    scope = Scope(tenant, user, thread, app, project)
    turn = [Message("user", name, id=name) for name in (first, second)]
    opened.run(opened.store.append_turn(turn, scope=scope, run_id=key))
    opened.run(opened.store.set_memory(key, {key: key}, scope=scope))
    opened.run(opened.store.set_state(key, scope=scope))
    opened.run(opened.store.update_working_memory({key: key}, scope=scope))
    opened.run(opened.store.add_event(key, {key: key}, run_id=key, scope=scope))
    assert opened.run(opened.store.messages_by_id([second], scope=scope)) == turn[1:]
    assert opened.run(opened.store.erase(scope=scope)).total == 7


@EXAMPLES
@given(
    turns=st.lists(TURN, max_size=2),
    places=st.lists(st.tuples(ID, ID, ID), min_size=2, max_size=2, unique_by=lambda place: place[:2]),
    memory=st.dictionaries(ID, OBJECT, max_size=3),
    mode=st.none() | ID,
    time=TIMES,
)
@example(turns=[], places=[("a", "b", "c"), ("d", "e", "f")], memory={"k": AWKWARD}, mode="m", time=EDGES[0])
def test_export_is_the_same_when_it_was_imported_elsewhere(
    opened: OpenStore,
    *,
    turns: list[list[Message]],
    places: list[tuple[str, str, str]],
    memory: dict[str, dict[str, object]],
    mode: str | None,
    time: datetime,
) -> None:
    """Everything survives the way out and back in, as another user of another tenant."""
    source, target = Scope(None, opened.fresh()), Scope(2, opened.fresh())
    opened.clock.time = time
    for turn, place in zip(turns, places, strict=False):
        opened.run(opened.store.append_turn(turn, scope=readings.at(source, place), run_id="r"))
    for key, value in memory.items():
        opened.run(opened.store.set_memory(key, value, scope=source))
    if mode is not None:
        opened.run(opened.store.set_state(mode, scope=source))
    lines = opened.run(readings.export(opened.store, source))
    opened.run(opened.store.import_(_through_another_tool(lines), scope=target))
    assert opened.run(readings.export(opened.store, target))[1:] == lines[1:]
    for place in places:
        sent = opened.run(opened.store.last_messages(None, scope=readings.at(source, place)))
        got = opened.run(opened.store.last_messages(None, scope=readings.at(target, place)))
        assert [_exact_message(message) for message in got] == [_exact_message(message) for message in sent]


def _in_utc(time: datetime) -> datetime | None:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return None


def _exact(value: object) -> str:
    return json.dumps(value)


def _exact_message(message: Message) -> str:
    body = message.body if isinstance(message.body, str) else [part_to_dict(part) for part in message.body]
    time = message.created_at.astimezone(UTC).isoformat()
    return _exact([message.id, message.role, message.origin, body, message.metadata, time])


def _through_another_tool(lines: list[str]) -> list[str]:
    """Rewrite the lines as other JSON: escaped, spaced out and with a line break at the end."""
    return [json.dumps(json.loads(line), separators=(" , ", " : ")) + "\n" for line in lines]
