"""The part of JSON Schema that says what a value must look like; other keywords are refused up front.

Values of a working memory grow by merging, so `required` counts only for objects within lists, which are
replaced as a whole.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from recollect.errors import InvalidArgumentError

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema as Python reads it."""

_MOST_HOPS = 12  # from schema to schema about one and the same value
_NOTES = frozenset(
    {
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "format",
        "readOnly",
        "title",
        "writeOnly",
    }
)


class _Place(NamedTuple):
    """Where in a value the check stands."""

    root: Schema
    path: str = ""
    in_list: bool = False
    hops: int = 0

    def at(self, name: str, *, in_list: bool = False) -> "_Place":
        path = f"{self.path}.{name}" if self.path else name
        return _Place(self.root, path, self.in_list or in_list)

    def hop(self) -> "_Place":
        return self._replace(hops=self.hops + 1)


def check_schema(schema: object) -> None:
    """Refuse a schema with keywords that are not understood, so that nothing is passed over in silence."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise InvalidArgumentError("schema", f"holds {schema!r:.60} where a schema belongs")
    given = cast("Schema", schema)
    if unknown := sorted(map(str, given.keys() - _KEYWORDS.keys() - _NOTES)):
        raise InvalidArgumentError(
            "schema", f"{unknown[0]!r:.60} is not understood; known: {', '.join(sorted(_KEYWORDS))}"
        )
    _check_words(given)
    for inner in _inner_schemas(given):
        check_schema(inner)


def find_problem(value: object, schema: Schema) -> str | None:
    """Return what does not fit, by its place and without the value itself, or None."""
    return _problem(value, schema, _Place(schema))


def _check_words(schema: Schema) -> None:
    kinds = schema.get("type", [])
    for kind in cast("list[object]", kinds if isinstance(kinds, list) else [kinds]):
        if kind not in _TYPES:
            raise InvalidArgumentError("schema", f"{kind!r:.60} is not a type; use {', '.join(_TYPES)}")
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"])
        except (re.error, TypeError) as error:
            raise InvalidArgumentError("schema", f"'pattern' is no regular expression: {error}") from None
    if not str(schema.get("$ref", "#")).startswith("#"):
        raise InvalidArgumentError("schema", "'$ref' may only point into the schema itself (#/$defs/…)")


def _inner_schemas(schema: Schema) -> list[object]:
    found: list[object] = [
        schema[word] for word in ("items", "additionalProperties", "not") if word in schema
    ]
    for word in ("anyOf", "oneOf", "allOf"):
        found += _as(list, schema.get(word, []), word)
    for word in ("properties", "$defs", "definitions"):
        found += _as(dict, schema.get(word, {}), word).values()
    return found


def _as(kind: type[Any], value: object, word: str) -> Any:  # noqa: ANN401 - a list or a dict, as asked for
    if not isinstance(value, kind):
        raise InvalidArgumentError("schema", f"{word!r} must be a {kind.__name__}")
    return value


def _problem(value: object, schema: object, place: _Place) -> str | None:
    if isinstance(schema, bool):
        return None if schema else _at(place, "is not allowed")
    if place.hops > _MOST_HOPS:
        return _at(place, "cannot be checked: the schema refers to itself")
    for word, argument in cast("Schema", schema).items():
        if word in _KEYWORDS and (problem := _KEYWORDS[word](value, argument, cast("Schema", schema), place)):
            return problem
    return None


def _at(place: _Place, problem: str) -> str:
    return f"{place.path[:200] or 'the value'} {problem}"


def _type(value: object, kinds: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    wanted = cast("list[str]", kinds if isinstance(kinds, list) else [kinds])
    if any(_TYPES[kind](value) for kind in wanted):
        return None
    return _at(place, f"must be {' or '.join(wanted)}")


def _enum(value: object, allowed: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    return (
        None if any(_equal(value, item) for item in allowed) else _at(place, "is none of the allowed values")
    )


def _const(value: object, wanted: object, _: Schema, place: _Place) -> str | None:
    return None if _equal(value, wanted) else _at(place, "is not the allowed value")


def _properties(value: object, properties: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    if not isinstance(value, dict):
        return None
    for name, item in cast("dict[str, object]", value).items():
        if name in properties and (problem := _problem(item, properties[name], place.at(name))):
            return problem
    return None


def _additional(value: object, schema: object, whole: Schema, place: _Place) -> str | None:
    if not isinstance(value, dict):
        return None
    known = whole.get("properties", {})
    for name, item in cast("dict[str, object]", value).items():
        if name not in known and (problem := _problem(item, schema, place.at(name))):
            return problem
    return None


def _required(value: object, names: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    if not place.in_list or not isinstance(value, dict):
        return None
    missing = [name for name in names if name not in value]
    return _at(place, f"lacks {missing[0]!r}") if missing else None


def _items(value: object, schema: object, _: Schema, place: _Place) -> str | None:
    if isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            if problem := _problem(item, schema, place.at(str(index), in_list=True)):
                return problem
    return None


def _any_of(value: object, schemas: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    problems = [_problem(value, schema, place.hop()) for schema in schemas]
    return None if None in problems else _at(place, "fits none of the alternatives")


def _one_of(value: object, schemas: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    fitting = [_problem(value, schema, place.hop()) for schema in schemas].count(None)
    return None if fitting == 1 else _at(place, f"fits {fitting} of the alternatives, not one")


def _all_of(value: object, schemas: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    for schema in schemas:
        if problem := _problem(value, schema, place.hop()):
            return problem
    return None


def _not(value: object, schema: object, _: Schema, place: _Place) -> str | None:
    inner = _problem(value, schema, place.hop())
    return None if inner else _at(place, "is not allowed")


def _ref(value: object, pointer: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    target: Any = place.root
    for step in [part for part in str(pointer)[1:].split("/") if part]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or name not in target:
            return _at(place, f"cannot be checked: the schema has no {pointer!r:.80}")
        target = cast("Schema", target)[name]
    return _problem(value, target, place.hop())


def _pattern(value: object, pattern: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
    if not isinstance(value, str) or re.search(pattern, value):
        return None
    return _at(place, "does not match the pattern")


def _limit(kind: str, holds: Callable[[Any, Any], bool], words: str) -> "_Keyword":
    """Make the check of a keyword that bounds a number, or the length of a text, list or object."""
    measures: dict[str, Callable[[object], Any]] = {
        "number": lambda value: value if _is_number(value) else None,
        "text": lambda value: len(value) if isinstance(value, str) else None,
        "list": lambda value: len(cast("list[object]", value)) if isinstance(value, list) else None,
    }

    def check(value: object, bound: Any, _: Schema, place: _Place) -> str | None:  # noqa: ANN401 - of a schema
        size = measures[kind](value)
        return None if size is None or holds(size, bound) else _at(place, f"must be {words} {bound}")

    return check


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: object, right: object) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(cast("float", value)),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}

_Keyword: TypeAlias = Callable[[object, Any, Schema, _Place], str | None]

_KEYWORDS: dict[str, _Keyword] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
    "$ref": _ref,
    "pattern": _pattern,
    "minimum": _limit("number", lambda size, bound: size >= bound, "at least"),
    "maximum": _limit("number", lambda size, bound: size <= bound, "at most"),
    "exclusiveMinimum": _limit("number", lambda size, bound: size > bound, "more than"),
    "exclusiveMaximum": _limit("number", lambda size, bound: size < bound, "less than"),
    "minLength": _limit("text", lambda size, bound: size >= bound, "of a length of at least"),
    "maxLength": _limit("text", lambda size, bound: size <= bound, "of a length of at most"),
    "minItems": _limit("list", lambda size, bound: size >= bound, "of a length of at least"),
    "maxItems": _limit("list", lambda size, bound: size <= bound, "of a length of at most"),
}
