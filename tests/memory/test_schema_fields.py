"""Schemas: Pydantic models and JSON Schemas say what may be kept."""

import re
from datetime import date
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator, model_validator

from recollect.errors import InvalidArgumentError
from recollect.memory import json_schema
from recollect.memory.fields import read_schema


class Home(BaseModel):
    """A place."""

    city: str
    zip: str | None = None


class Profile(BaseModel):
    """A user."""

    name: str = Field(min_length=2, alias="fullName", description="how to address them")
    age: Annotated[int, Field(ge=0)]
    born: date | None = None
    home: Home | None = None
    tags: list[str] = []

    @field_validator("name")
    @classmethod
    def no_shouting(cls, value: str) -> str:
        """Keep names in small letters."""
        if value == "crash":
            raise RuntimeError("a validator that fails")
        return value.title()

    @computed_field
    @property
    def greeting(self) -> str:
        """Greet."""
        return f"Hi {self.name}"


PERSON: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Person",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^[A-Z]"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 200},
        "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 3},
        "mood": {"enum": ["good", "bad", 1]},
        "kind": {"const": "human"},
        "pets": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"$ref": "#/$defs/pet"}},
        "home": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "integer"]}},
            "additionalProperties": False,
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "one": {"oneOf": [{"minimum": 5}, {"type": "integer"}]},
        "both": {"allOf": [{"type": "string"}, {"minLength": 2}]},
        "odd": {"not": {"type": "string"}},
        "free": True,
        "loose": {"properties": {"a": {}}, "additionalProperties": False, "required": ["a"], "items": {}},
        "none": False,
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "me": {"$ref": "#"},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "$defs": {
        "pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop"}]},
        "a/b~c": {"type": "null"},
    },
}

FITS: list[dict[str, Any]] = [
    {"age": 5},
    {"age": 5.0, "size": 1.5},
    {"either": 10**400, "free": 1e300},
    {"name": "Ann", "mood": 1, "kind": "human"},
    {"pets": [{"name": "Rex"}]},
    {"home": {"zip": 7}},
    {"either": 5, "one": 3, "both": "xy", "odd": 3, "free": [None], "more": {"x": True}},
    {"me": {"me": {"age": 1}}},
    {"loose": "neither an object nor a list"},
    {"loose": [1]},
]

DOES_NOT_FIT: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "name must be string"),
    ({"name": "A"}, "name must be of a length of at least 2"),
    ({"name": "A" * 10}, "name must be of a length of at most 9"),
    ({"name": "ann"}, "name does not match the pattern"),
    ({"age": True}, "age must be integer"),
    ({"age": 1.5}, "age must be integer"),
    ({"age": -1}, "age must be at least 0"),
    ({"age": 200}, "age must be less than 200"),
    ({"size": 0}, "size must be more than 0"),
    ({"size": 4}, "size must be at most 3"),
    ({"size": "x"}, "size must be number"),
    ({"mood": "so-so"}, "mood is none of the allowed values: 'good', 'bad', 1"),
    ({"mood": True}, "mood is none of the allowed values"),
    ({"kind": "cat"}, "kind is not the allowed value"),
    ({"pets": []}, "pets must be of a length of at least 1"),
    ({"pets": [{"name": "a"}] * 3}, "pets must be of a length of at most 2"),
    ({"pets": [{"name": "a"}, {}]}, "pets.1 lacks 'name'"),
    ({"pets": ["Rex"]}, "pets.0 must be object"),
    ({"pets": "Rex"}, "pets must be array"),
    ({"home": {"city": 5}}, "home.city must be string"),
    ({"home": {"zip": []}}, "home.zip must be string or integer"),
    ({"home": {"lake": 1}}, "home.lake is not allowed"),
    ({"either": []}, "either fits none of the alternatives"),
    ({"one": 7}, "one fits more than one of the alternatives, not one"),
    ({"both": "x"}, "both must be of a length of at least 2"),
    ({"odd": "x"}, "odd is not allowed"),
    ({"none": 1}, "none is not allowed"),
    ({"more": {"x": 1}}, "more.x must be boolean"),
    ({"me": {"age": "x"}}, "me.age must be integer"),
    ({"loop": 1}, "cannot be checked in 100,000 steps: too deep, or the schema refers to itself"),
]


def test_model_is_read_by_its_field_names() -> None:
    """Fields are named as in Python, and the model gets their descriptions."""
    fields = read_schema(Profile)
    assert fields.names == ("name", "age", "born", "home", "tags")
    assert "how to address them" in fields.describe()
    assert "fullName" not in fields.describe()


def test_model_checks_and_writes_single_fields() -> None:
    """No field is required; constraints and validators of the model hold; values become JSON."""
    fields = read_schema(Profile)
    assert fields.validate({"age": "7", "born": "2001-02-03"}) == {"age": 7, "born": "2001-02-03"}
    assert fields.validate({"name": "ann lee"}) == {"name": "Ann Lee"}
    assert fields.validate({"home": {"city": "Rome"}, "tags": ["a"]}) == {
        "home": {"city": "Rome"},
        "tags": ["a"],
    }


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"age": -1}, "age: Input should be greater than or equal to 0"),
        ({"age": "secret"}, "age: Input should be a valid integer"),
        ({"name": "x"}, "name: String should have at least 2"),
        ({"home": {"zip": "1"}}, "home.city: Field required"),
        ({"name": "crash"}, "RuntimeError in Profile"),
        ({"city": "x"}, "'city' is not a field"),
        ({"fullName": "Ann"}, "'fullName' is not a field"),
    ],
)
def test_model_refuses_what_does_not_fit(values: dict[str, object], problem: str) -> None:
    """The error names the place and the rule, and does not quote the value."""
    with pytest.raises(InvalidArgumentError, match=re.escape(problem)) as raised:
        read_schema(Profile).validate(values)
    assert "secret" not in str(raised.value)


def test_model_with_a_rule_over_all_fields_is_given_what_there_is() -> None:
    """A rule that cannot do with missing fields refuses; the error says that it was for all fields."""

    class Range(BaseModel):
        model_config = ConfigDict(extra="forbid")
        low: int
        high: int

        @model_validator(mode="after")
        def in_order(self) -> "Range":
            if self.low is not None and self.high is not None and self.low > self.high:  # pyright: ignore[reportUnnecessaryComparison] - None while incomplete
                raise ValueError("out of order")
            return self

    fields = read_schema(Range)
    assert fields.validate({"low": 5}) == {"low": 5}
    with pytest.raises(InvalidArgumentError, match="all fields: Value error, out of order"):
        fields.validate({"low": 5, "high": 4})


def test_field_that_the_model_never_writes_is_not_kept() -> None:
    """What a model excludes from its own output has no place in what is shown with every prompt."""

    class Secretive(BaseModel):
        name: str
        password: str = Field(exclude=True)

    assert read_schema(Secretive).validate({"name": "Ann", "password": "x"}) == {"name": "Ann"}


def test_schema_is_shown_as_json() -> None:
    """Only known fields are shown, and nothing where all are empty."""
    for schema in (Profile, PERSON):
        fields = read_schema(schema)
        assert fields.render({}) == fields.render({"name": "", "other": 1}) == ""
        assert fields.render({"name": "Ann", "other": 1}) == '{\n  "name": "Ann"\n}'


@pytest.mark.parametrize("values", FITS)
def test_json_schema_takes_what_fits(values: dict[str, object]) -> None:
    """Values come back as they are; `required` holds only for objects in lists."""
    assert read_schema(PERSON).validate(values) == values
    assert "minLength" in read_schema(PERSON).describe()


@pytest.mark.parametrize(("values", "problem"), DOES_NOT_FIT, ids=repr)
def test_json_schema_refuses_what_does_not_fit(values: dict[str, object], problem: str) -> None:
    """The error names the place and the rule."""
    with pytest.raises(InvalidArgumentError, match=re.escape(problem)):
        read_schema(PERSON).validate(values)


def test_json_schema_may_be_open() -> None:
    """Further fields are taken and shown only where the schema says so."""
    with pytest.raises(InvalidArgumentError, match="'extra' is not a field"):
        read_schema({"properties": {"a": {}}}).validate({"extra": 1})
    fields = read_schema({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})
    assert fields.validate({"extra": 1}) == {"extra": 1}
    assert fields.render({"extra": 1}) == '{\n  "extra": 1\n}'
    with pytest.raises(InvalidArgumentError, match="extra must be integer"):
        fields.validate({"extra": "x"})


def test_pointer_may_hold_escaped_names() -> None:
    """A reference finds names with a slash or a tilde."""
    schema = {**PERSON, "properties": {"a": {"$ref": "#/$defs/a~1b~0c"}}}
    assert read_schema(schema).validate({"a": None}) == {"a": None}


CYCLE: dict[str, Any] = {"properties": {}}
CYCLE["properties"]["a"] = CYCLE


def test_required_holds_in_lists_however_they_are_reached() -> None:
    """The same schema asks for all of an object in a list, and for nothing of it elsewhere."""
    pet = {"type": "object", "required": ["name"], "properties": {"kin": {"items": {"$ref": "#/$defs/pet"}}}}
    properties = {
        "pets": {"items": {"$ref": "#/$defs/pet"}},
        "best": {"$ref": "#/$defs/pet"},
        "first": {"$ref": "#/properties/lists/items/items"},
        "lists": {"items": {"items": {"required": ["name"]}}},
        "either": {"anyOf": [{"required": ["name"]}, {"type": "string"}]},
    }
    fields = read_schema({"properties": properties, "$defs": {"pet": pet}})
    fits: list[dict[str, Any]] = [{"best": {}}, {"first": {}}, {"either": {}}, {"pets": [{"name": "Rex"}]}]
    for values in fits:
        assert fields.validate(values) == values
    lacks: list[tuple[dict[str, Any], str]] = [
        ({"pets": [{}]}, "pets.0 lacks 'name'"),
        ({"best": {"kin": [{}]}}, "best.kin.0 lacks 'name'"),
        ({"lists": [[{}]]}, "lists.0.0 lacks 'name'"),
    ]
    for values, problem in lacks:
        with pytest.raises(InvalidArgumentError, match=re.escape(problem)):
            fields.validate(values)


def test_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a reference nor the name that a schema gives itself reaches the network or a file."""
    monkeypatch.setattr("urllib.request.urlopen", Mock(side_effect=AssertionError("something was fetched")))
    part = {"$id": "http://127.0.0.1:9/x", "$schema": "http://127.0.0.1:9/y", "$ref": "#/$defs/text"}
    schema = {"$id": "file:///etc/passwd", "properties": {"a": part}, "$defs": {"text": {"type": "string"}}}
    assert read_schema(schema).validate({"a": "x"}) == {"a": "x"}
    with pytest.raises(InvalidArgumentError, match="a must be string"):
        read_schema(schema).validate({"a": 1})


@pytest.mark.parametrize("depth", range(12))
def test_schema_that_refers_to_itself_ends_wherever_the_stack_is_full(depth: int) -> None:
    """Code in Rust that Python's stack is full in would end the program."""
    loop = {"type": "integer", "minimum": 0, "allOf": [{"anyOf": [{"$ref": "#/$defs/loop"}]}]}
    fields = read_schema({"properties": {"a": {"$ref": "#/$defs/loop"}}, "$defs": {"loop": loop}})

    def call(more: int) -> None:
        if more:
            call(more - 1)
        else:
            fields.validate({"a": 1})

    with pytest.raises(InvalidArgumentError, match="the schema refers to itself"):
        call(depth)


@pytest.mark.timeout(60)
def test_alternatives_that_nest_end_after_some_steps() -> None:
    """Each level is tried in two ways: at sixty levels nobody would live to see the end."""
    closed = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
    node = {"anyOf": [closed, {**closed, "title": "the same"}]}
    fields = read_schema({"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    value: object = "no object"
    for _ in range(60):
        value = {"a": value}
    with pytest.raises(InvalidArgumentError, match="cannot be checked in 100,000 steps"):
        fields.validate({"a": value})


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        (r"^(a+)+$", "a" * 50, "a" * 50_000 + "b"),
        (r"^(\w+\s?)*$", "some words", "x" * 50_000 + "!"),
        (r"^(?!no)", "yes", "no"),
        (r"\<b\>", "a <b> c", "b"),
    ],
)
def test_pattern_takes_no_long_time(pattern: str, fits: str, fits_not: str) -> None:
    """What takes Python's expressions for ever is decided at once; what only they can do still works."""
    fields = read_schema({"properties": {"a": {"pattern": pattern}}})
    assert fields.validate({"a": fits}) == {"a": fits}
    with pytest.raises(InvalidArgumentError, match="a does not match the pattern"):
        fields.validate({"a": fits_not})


@pytest.mark.parametrize("rule", [{"type": "integer"}, {"enum": ["x"]}, {"const": 1}, {"pattern": "^x"}])
def test_error_does_not_quote_the_value(rule: dict[str, object]) -> None:
    """Nor does what it came from: a log or a trace may show both."""
    with pytest.raises(InvalidArgumentError) as raised:
        read_schema({"properties": {"a": rule}}).validate({"a": "secret"})
    assert "secret" not in f"{raised.value!r} {raised.value.__context__!r} {raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (5, "must be a Pydantic model class or a JSON Schema"),
        (int, "must be a Pydantic model class"),
        (RootModel[int], "must be a Pydantic model class"),
        (BaseModel, "has no fields"),
        ([], "must be a Pydantic model class"),
        ({}, "with 'properties'"),
        ({"type": "array"}, "with 'properties'"),
        ({"properties": {}}, "with 'properties'"),
        ({"properties": []}, "properties must be object"),
        ({"properties": {"a": 5}}, "properties.a must be object or boolean"),
        ({"properties": {"a": {"anyOf": {}}}}, "properties.a.anyOf must be array"),
        ({"properties": {"a": {"minimum": "5"}}}, "properties.a.minimum must be number"),
        (
            {"properties": {"a": {"type": "text"}}},
            "properties.a.type is none of the allowed values: 'array', 'boolean'",
        ),
        ({"properties": {"a": {"pattern": "("}}}, "no regular expression"),
        ({"properties": {"a": {"pattern": 5}}}, "properties.a.pattern must be string"),
        ({"properties": {"a": {"$ref": "http://x"}}}, "may only point into the schema itself"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "may only point into the schema itself"),
        ({"properties": {"a": {"$ref": "#/$defs/nobody"}}}, "leads to no schema: '#/$defs/nobody'"),
        ({"properties": {"a": {"$ref": "#/properties"}}}, "leads to no schema: '#/properties'"),
        ({"properties": {"a": {"$ref": "#nobody"}}}, "leads to no schema: '#nobody'"),
        ({"properties": {"a": {"if": {}}}}, "'if' is not understood"),
        ({"properties": {"a": {"default": {1, 2}}}}, "is not JSON"),
        (CYCLE, "nested deeper"),
    ],
    ids=str,
)
def test_wrong_schema_is_refused(schema: object, problem: str) -> None:
    """What is not understood is said at once, and not passed over."""
    with pytest.raises(InvalidArgumentError, match=re.escape(problem)):
        read_schema(schema)


def test_checks_of_a_schema_are_made_when_first_used() -> None:
    """Once for a process: every schema shares them."""
    json_schema._make_validator_class.cache_clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as in a new process
    fields = read_schema({"type": "object", "properties": {"name": {"type": "string"}}})
    assert fields.validate({"name": "Ada"}) == {"name": "Ada"}
    with pytest.raises(InvalidArgumentError, match="name"):
        fields.validate({"name": 1})
