"""Scopes and the checks of arguments: what passes comes back unchanged, what does not is named."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from recollect import InvalidArgumentError, Scope
from recollect.scope import SYSTEM_TENANT, encode_tenant
from recollect.validation import (
    MAX_ID_BYTES,
    MAX_INT,
    MAX_JSON_DEPTH,
    MAX_TEXT_BYTES,
    check_choice,
    check_choices,
    check_flag,
    check_id,
    check_int,
    check_json,
    check_json_object,
    check_share,
    check_tenant,
    check_text,
    check_time,
    encode_json,
    parse_time,
)

BAD_IDS: tuple[object, ...] = ("", "x" * 513, "é" * 257, "a\0b", "\ud800", 5, True, b"x", [], ("x",))


def _refused(check: Callable[..., object], value: object, **options: int) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as raised:
        check(value, "argument", **options)
    return raised.value


def _nested(depth: int, kind: Callable[[object], object]) -> object:
    value: object = "end"
    for _ in range(depth):
        value = kind(value)
    return value


def _in_list(value: object) -> object:
    return [value]


def _in_dict(value: object) -> object:
    return {"k": value}


def _in_tuple(value: object) -> object:
    return (value,)


def test_scope_has_defaults_for_all_but_tenant_and_user() -> None:
    """A scope of a tenant and a user means all threads of the default app and project."""
    scope = Scope(1, "ann")
    assert (scope.thread_id, scope.app_id, scope.project_id) == (None, "default", "default")
    with pytest.raises(TypeError):
        Scope(1)  # pyright: ignore[reportCallIssue] - wrong on purpose


def test_scope_is_a_value() -> None:
    """Equal scopes are one key of a dict; none can be changed."""
    scope = Scope(1, "ann", "t", "app", "project")
    assert {scope: 1}[Scope(1, "ann", "t", "app", "project")] == 1
    assert pickle.loads(pickle.dumps(scope)) == scope  # noqa: S301 - our own bytes
    with pytest.raises(FrozenInstanceError):
        setattr(scope, "user_id", "bob")  # noqa: B010 - frozen for the type checker too


@pytest.mark.parametrize("field", ["user_id", "thread_id", "app_id", "project_id"])
def test_scope_refuses_ids_by_name(field: str) -> None:
    """Every id of a scope follows the rule for ids; only the thread may be None."""
    for value in BAD_IDS if field == "thread_id" else (*BAD_IDS, None):
        given: dict[str, Any] = {"tenant_id": 1, "user_id": "ann", field: value}
        with pytest.raises(InvalidArgumentError) as raised:
            Scope(**given)
        assert raised.value.argument == field


@pytest.mark.parametrize(
    ("tenant", "problem"),
    [
        (0, "must be 1 or more, not 0"),
        (-1, "must be 1 or more, not -1"),
        (2**63, f"must be {MAX_INT} or less, not {2**63}"),
        (True, "must be a positive int, a text or None, not bool"),
        (False, "must be a positive int, a text or None, not bool"),
        (1.0, "must be a positive int, a text or None, not float"),
        (b"1", "must be a positive int, a text or None, not bytes"),
        ([], "must be a positive int, a text or None, not list"),
        ("", "must not be empty"),
        ("x" * 513, "is 513 bytes long; at most 512 are allowed"),
        ("é" * 257, "is 514 bytes long; at most 512 are allowed"),
        ("a\0b", "must not contain the NUL character (U+0000)"),
        ("\ud800", "contains a lone surrogate at position 0, which is not valid text"),
        (SYSTEM_TENANT, "'(system)' is reserved for the tenant None"),
    ],
)
def test_what_is_no_tenant_is_refused_with_a_reason(tenant: Any, problem: str) -> None:  # noqa: ANN401 - wrong on purpose
    """A tenant is a positive int, a text or None."""
    assert _refused(check_tenant, tenant).problem == problem
    with pytest.raises(InvalidArgumentError) as raised:
        Scope(tenant, "ann")
    assert (raised.value.argument, raised.value.problem) == ("tenant_id", problem)


@pytest.mark.parametrize(
    ("tenant", "key"),
    [(None, "(system)"), (1, "1"), ("1", "1"), (MAX_INT, str(MAX_INT)), ("01", "01"), (" 1", " 1")],
)
def test_tenant_has_a_text_as_its_key(tenant: int | str | None, key: str) -> None:
    """None has a key that no text can have; an int has that of its digits, a text is its own."""
    scope = Scope(tenant, "ann", "t", "app", "project")
    assert (scope.tenant_key, encode_tenant(tenant)) == (key, key)
    assert scope.key == (key, "ann", "t", "app", "project")
    assert (type(scope.tenant_id), check_tenant(tenant)) == (type(tenant), tenant)


def test_longest_tenant_is_512_bytes_long() -> None:
    """As every id."""
    for tenant in ("x" * 512, "é" * 256):
        assert Scope(tenant, "ann").tenant_key == tenant


def test_thread_is_required_where_the_scope_names_none() -> None:
    """A method for one thread gets its name or an error, never all threads."""
    assert Scope(1, "ann", "t").required_thread_id == "t"
    with pytest.raises(InvalidArgumentError, match="scope: must name a thread"):
        _ = Scope(1, "ann").required_thread_id


def test_with_thread_changes_only_the_thread() -> None:
    """The same user's other thread is one step away, and is checked too."""
    scope = Scope(None, "ann", "t", "app", "project")
    assert scope.with_thread("u") == Scope(None, "ann", "u", "app", "project")
    assert scope.with_thread(None).thread_id is None
    with pytest.raises(InvalidArgumentError):
        scope.with_thread("")


@pytest.mark.parametrize(
    "text", ["", "hello", "naïve 日本語 \U0001f600", "\x01\x7f\ufffe\uffff\ufeff", " \n\t"]
)
def test_text_passes_when_both_engines_can_keep_it(text: str) -> None:
    """Text without NUL and lone surrogates comes back as it is."""
    assert check_text(text, "argument") is text


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("a\0b", "NUL"),
        ("\0", "NUL"),
        ("ok\ud800", "lone surrogate at position 2"),
        ("\udfff", "lone surrogate at position 0"),
        (5, "must be text, not int"),
        (None, "must be text, not NoneType"),
        (b"x", "must be text, not bytes"),
    ],
)
def test_text_is_refused_with_a_reason(value: object, problem: str) -> None:
    """The error names the argument and says what is wrong."""
    error = _refused(check_text, value)
    assert error.argument == "argument"
    assert problem in error.problem


def test_text_is_measured_in_bytes() -> None:
    """The limit counts UTF-8, on the byte."""
    assert check_text("é" * 5, "argument", max_bytes=10)
    assert "is 11 bytes long; at most 10" in _refused(check_text, "é" * 5 + "x", max_bytes=10).problem
    assert "is 11 bytes long" in _refused(check_text, "x" * 11, max_bytes=10).problem


def test_text_has_a_largest_size() -> None:
    """A text of the largest size passes, one byte more does not."""
    assert len(check_text("x" * MAX_TEXT_BYTES, "argument")) == MAX_TEXT_BYTES
    _refused(check_text, "x" * (MAX_TEXT_BYTES + 1))


def test_ids_are_refused_when_empty_or_too_long() -> None:
    """An id has one to 512 bytes."""
    assert check_id("x", "argument") == "x"
    assert check_id("x" * MAX_ID_BYTES, "argument")
    for value in BAD_IDS:
        assert _refused(check_id, value).argument == "argument"
    assert "must not be empty" in _refused(check_id, "").problem


@pytest.mark.parametrize("tenant", [None, 1, 42, MAX_INT])
def test_tenant_passes_when_positive_or_none(tenant: int | None) -> None:
    """None and positive ints are tenants."""
    assert check_tenant(tenant) == tenant


@pytest.mark.parametrize("value", [-1, MAX_INT + 1, -(10**30), True, False, 1.0, "1", None, [], 2 + 0j])
def test_int_is_refused_outside_its_bounds(value: object) -> None:
    """A bool is no int, and neither is anything that only looks like one."""
    assert _refused(check_int, value).argument == "argument"


def test_int_passes_on_its_bounds() -> None:
    """The bounds themselves are allowed."""
    assert check_int(0, "argument") == 0
    assert check_int(MAX_INT, "argument") == MAX_INT
    assert check_int(5, "argument", minimum=5, maximum=5) == 5
    assert "must be 6 or more" in _refused(check_int, 5, minimum=6).problem
    assert "must be 4 or less" in _refused(check_int, 5, maximum=4).problem


def _choice(value: Any) -> object:  # noqa: ANN401 - wrong ones too
    return check_choice(value, "option", ("one", "two"))


def _choices(value: Any) -> object:  # noqa: ANN401 - the same
    return check_choices(value, "option", ("one", "two"))


def _share(value: object) -> object:
    return check_share(value, "option")


def _flag(value: object) -> object:
    return check_flag(value, "option")


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (_choice, "three"),
        (_choices, "one"),
        (_choices, 5),
        (_choices, ["one", "three"]),
        (_share, 1.5),
        (_share, True),
        (_share, "0.5"),
        (_share, float("nan")),
        (_flag, 1),
        (_flag, "no"),
        (_flag, None),
    ],
)
def test_option_is_refused_when_it_is_not_allowed(check: Callable[[object], object], value: object) -> None:
    """The error names the option and what it may be."""
    with pytest.raises(InvalidArgumentError, match=r"one, two|from 0 to 1|True or False") as raised:
        check(value)
    assert raised.value.argument == "option"


def test_option_is_returned_when_it_is_allowed() -> None:
    """Good values come back as they are."""
    assert check_choice("one", "option", ("one", "two")) == "one"
    assert check_choices(["two", "one"], "option", ("one", "two")) == ("two", "one")
    assert (check_share(0, "option"), check_share(0.5, "option"), check_share(1, "option")) == (0.0, 0.5, 1.0)
    assert [_flag(value) for value in (True, False)] == [True, False]


@pytest.mark.parametrize("value", [datetime(2024, 1, 1), "2024-01-01", None, 0, datetime(2024, 1, 1).date()])  # noqa: DTZ001 - wrong on purpose
def test_time_is_refused_without_a_zone(value: object) -> None:
    """A time without a zone could mean any of a day's hours."""
    assert _refused(check_time, value).argument == "argument"


def test_time_passes_with_any_zone() -> None:
    """Every moment that UTC can tell is a time, in any zone."""
    east = timezone(timedelta(hours=14))
    for time in (
        datetime(2024, 1, 1, tzinfo=east),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ):
        assert check_time(time, "argument") == time


def test_time_is_refused_when_utc_cannot_tell_it() -> None:
    """A moment before the year 1 or after 9999 in UTC could be stored but never read again."""
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    for time in (datetime.min.replace(tzinfo=east), datetime.max.replace(tzinfo=west)):
        assert _refused(check_time, time).argument == "argument"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-31", datetime(2026, 3, 31, tzinfo=UTC)),
        ("2026-03-31T09:00", datetime(2026, 3, 31, 9, tzinfo=UTC)),
        ("2026-03-31 09:00:30.5", datetime(2026, 3, 31, 9, 0, 30, 500_000, tzinfo=UTC)),
        ("2026-03-31T01:00+02:00", datetime(2026, 3, 30, 23, tzinfo=UTC)),
        ("2026-03-31T09:00Z", datetime(2026, 3, 31, 9, tzinfo=UTC)),
    ],
)
def test_written_time_is_utc_when_it_has_no_zone(text: str, time: datetime) -> None:
    """A date is its first moment; a zone counts if there is one."""
    assert parse_time(text, "argument") == time


@pytest.mark.parametrize(
    "text", ["", "yesterday", "31.03.2026", "2026-13-01", "0001-01-01T00:00+14:00", 5, None, "2026\0"]
)
def test_written_time_is_refused_when_it_is_none(text: object) -> None:
    """The error names the argument, and an example says how a time is written."""
    problem = _refused(parse_time, text).problem
    assert any(words in problem for words in ("2026-03-31T09:00", "must be text", "NUL", "years 1 to 9999"))


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(10**30), 0.5, -0.0, "text", [], {}, [1, [2, {"a": None}]], {"": {"": ""}}, (1, (2,))],
)
def test_json_passes_when_nothing_would_be_lost(value: object) -> None:
    """What JSON can hold is accepted; a tuple counts as a list."""
    check_json(value, "argument")
    assert encode_json(value, "argument")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "argument"),
        ({"a": float("inf")}, "argument.a"),
        ({"a": [0, {"b": float("-inf")}]}, "argument.a[1].b"),
        ({"a": {1, 2}}, "argument.a"),
        ([b"x"], "argument[0]"),
        ({"a": datetime.now(UTC)}, "argument.a"),
        (object(), "argument"),
        ({"a": "\0"}, "argument.a"),
        ({"a": ["\ud800"]}, "argument.a[0]"),
        ({"a": {1: 2}}, "argument.a"),
        ({None: 2}, "argument"),
        ({"\0": 2}, "a key of argument"),
    ],
)
def test_json_is_refused_at_its_place(value: object, place: str) -> None:
    """The error names the argument and the way to what is wrong inside it."""
    assert _refused(check_json, value).argument == place


def test_json_is_refused_when_nested_too_deep() -> None:
    """The deepest allowed nesting passes, one level more does not, and no depth breaks Python."""
    for kind in (_in_list, _in_dict, _in_tuple):
        check_json(_nested(MAX_JSON_DEPTH, kind), "argument")
        for depth in (MAX_JSON_DEPTH + 1, 100_000):
            assert "nested deeper" in _refused(check_json, _nested(depth, kind)).problem


def test_json_is_refused_when_it_contains_itself() -> None:
    """A cycle is nesting without end."""
    cycle: dict[str, object] = {}
    cycle["a"] = [cycle]
    assert "nested deeper" in _refused(check_json, cycle).problem


def test_json_object_must_be_a_dict() -> None:
    """Memory values and metadata are objects, and come back as they are."""
    value = {"a": [1]}
    assert check_json_object(value, "argument") is value
    wrong_values: tuple[object, ...] = ([], "x", None, 5, (("a", 1),))
    for wrong in wrong_values:
        assert "must be a dict" in _refused(check_json_object, wrong).problem


def test_json_text_is_compact_and_keeps_unicode() -> None:
    """The text is as short as it can be and needs no escapes for other scripts."""
    assert encode_json({"b": [1, 0.5, None], "a": "日本"}, "argument") == '{"b":[1,0.5,null],"a":"日本"}'


def test_json_text_is_refused_when_it_cannot_be_written() -> None:
    """A number of thousands of digits, or what slipped in after the check, is an error of ours."""
    for value in (10**5000, float("nan"), {"a": {1}}, {"a": object()}):
        assert _refused(encode_json, value).argument == "argument"


def test_json_text_has_a_largest_size() -> None:
    """A value is measured as the text that is stored."""
    assert "bytes long" in _refused(encode_json, ["x" * 1024] * (MAX_TEXT_BYTES // 1024)).problem


def test_error_about_a_hostile_place_is_short() -> None:
    """The way to a value can be made of very long keys; the error is not."""
    hostile = cast("dict[str, object]", {"x" * 100_000: {"y" * 100_000: float("nan")}})
    assert len(str(_refused(check_json, hostile))) < 500
