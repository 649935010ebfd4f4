"""JSON Schemas for working memory: `jsonschema` checks values, and this module words the problems.

The library's own messages quote the value. Ours name only the field and the rule, because a log or a trace
must not repeat what people said. A schema with a keyword that is not listed here is rejected, so that none is
silently ignored. Nothing outside the schema is ever fetched.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from recollect.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema as Python reads it."""

_Errors: TypeAlias = "Iterator[ValidationError]"

_MAX_STEPS = 100_000  # about a second; alternatives that nest can need 2**depth of them

_PROBLEMS = {
    "anyOf": "fits none of the alternatives",
    "const": "is not the allowed value",
    "exclusiveMaximum": "must be less than {}",
    "exclusiveMinimum": "must be more than {}",
    "maxItems": "must be of a length of at most {}",
    "maxLength": "must be of a length of at most {}",
    "maximum": "must be at most {}",
    "minItems": "must be of a length of at least {}",
    "minLength": "must be of a length of at least {}",
    "minimum": "must be at least {}",
    "not": "is not allowed",
    "pattern": "does not match the pattern",
}
_ONE_SCHEMA = {"items", "additionalProperties", "not"}
_LISTED_SCHEMAS = {"anyOf", "oneOf", "allOf"}
_NAMED_SCHEMAS = {"properties", "$defs", "definitions"}
_OTHERS = {"$ref", "enum", "properties", "required", "type"}
_KEYWORDS = _OTHERS | _PROBLEMS.keys() | _ONE_SCHEMA | _LISTED_SCHEMAS
_TEXT_NOTES = {"$comment", "$id", "$schema", "description", "format", "title"}
_NOTES = {"default", "deprecated", "examples", "readOnly", "writeOnly"} | _TEXT_NOTES

# Python's regular expressions can take exponential time. Those of Rust take linear time, but these few forms
# mean something else there.
_OTHER_MEANING = re.compile(r"\\[<>]|&&|--|~~|\[\[")


class _TooManyStepsError(Exception):
    pass


_steps: ContextVar[Iterator[int]] = ContextVar("steps")


def compile_schema(schema: Schema) -> Callable[[object], str | None]:
    """Check a schema, and return a function that describes the first problem of a value, or None.

    A working memory is filled in bit by bit, but a list is replaced as a whole. So `required` counts within
    lists alone, and the library is given the schema twice:

        {"required": ["a"], "items": {"$ref": "#"}}
        → free   = {"each": {"$ref": listed}, …}
          listed = {"required": ["a"], "each": {"$ref": listed}, …}

    `each` is what checks the items; `items` stays beside it for references that lead through it.
    """
    from jsonschema import Draft202012Validator
    from referencing.jsonschema import EMPTY_REGISTRY

    # With an empty registry a reference that got past the checks would still not be fetched.
    meta: Any = Draft202012Validator(Draft202012Validator.META_SCHEMA, registry=EMPTY_REGISTRY)
    for error in meta.iter_errors(dict(schema)):
        # One word is the first alternative of `type`, and says more than that a list would be another.
        first = error.context[0] if error.context else error
        raise InvalidArgumentError("schema", f"is no JSON Schema: {_describe(first)}")
    copies: list[dict[str, Any]] = []
    trees = {"free": _copy(schema, copies, in_list=False), "listed": _copy(schema, copies, in_list=True)}
    _resolve_references({"$defs": trees}, copies)
    return partial(_find_problem, _make_validator_class()(trees["free"], registry=EMPTY_REGISTRY))


def _check_keywords(schema: Schema) -> None:
    if unknown := sorted(schema.keys() - _KEYWORDS - _NOTES - _NAMED_SCHEMAS):
        raise InvalidArgumentError(
            "schema", f"{unknown[0]!r:.60} is not understood; known: {', '.join(sorted(_KEYWORDS))}"
        )
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as error:
        raise InvalidArgumentError("schema", f"'pattern' is no regular expression: {error}") from None
    if not schema.get("$ref", "#").startswith("#"):
        raise InvalidArgumentError("schema", "'$ref' may only point into the schema itself (#/$defs/…)")


def _copy(schema: Any, copies: list[dict[str, Any]], *, in_list: bool) -> dict[str, Any]:  # noqa: ANN401 - or a bool
    """Copy a schema without its notes, and with references that stay in the same tree."""
    if isinstance(schema, bool):
        # For what a bare false refuses the library names no place.
        schema = {} if schema else {"not": {}}
    _check_keywords(schema)
    copy = partial(_copy, copies=copies, in_list=in_list)
    copied: dict[str, Any] = {}
    for word, argument in schema.items():
        if word in _ONE_SCHEMA:
            copied[word] = copy(argument)
        elif word in _LISTED_SCHEMAS:
            copied[word] = [copy(inner) for inner in argument]
        elif word in _NAMED_SCHEMAS:
            copied[word] = {name: copy(inner) for name, inner in argument.items()}
        elif word == "$ref":
            copied[word] = f"#/$defs/{'listed' if in_list else 'free'}{argument[1:]}"
        elif word not in _NOTES and (in_list or word != "required"):
            copied[word] = argument
    if "items" in schema:
        copied["each"] = copied["items"] if in_list else _copy(schema["items"], copies, in_list=True)
    copies.append(copied)
    return copied


def _resolve_references(whole: Schema, copies: list[dict[str, Any]]) -> None:
    """Put the schema that is meant in the place of each pointer.

    The library would look it up at each use, by code that panics where Python's stack is full.
    """
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

    resolver = EMPTY_REGISTRY.resolver_with_root(DRAFT202012.create_resource(whole))
    known = {id(copy) for copy in copies}
    targets: dict[str, Any] = {}
    for pointer in {copy["$ref"] for copy in copies if "$ref" in copy}:
        with suppress(Unresolvable):
            targets[pointer] = resolver.lookup(pointer).contents
        if id(targets.get(pointer)) not in known:
            shown = re.sub(r"^#/\$defs/(free|listed)", "#", pointer)
            raise InvalidArgumentError("schema", f"'$ref' leads to no schema: {shown!r:.80}")
    for copy in copies:
        if "$ref" in copy:
            copy["$ref"] = targets[copy["$ref"]]


class _Types:
    """The types of JSON in plain Python; the library's own table panics where Python's stack is full."""

    _OTHERS: ClassVar[dict[str, Any]] = {"object": dict, "array": list, "string": str, "null": type(None)}

    def is_type(self, value: object, kind: str) -> bool:
        if isinstance(value, bool):
            return kind == "boolean"
        if isinstance(value, int):
            return kind in ("integer", "number")
        if isinstance(value, float):
            return kind == "number" or (kind == "integer" and value.is_integer())
        return isinstance(value, self._OTHERS.get(kind, ()))


@cache
def _make_validator_class() -> Any:  # noqa: ANN401 - the library's type does not show all that we use
    from jsonschema import Draft202012Validator, validators

    checks = {word: Draft202012Validator.VALIDATORS[word] for word in _KEYWORDS - {"items"}}
    checks |= {"each": Draft202012Validator.VALIDATORS["items"]}
    checks |= {"$ref": _check_reference, "additionalProperties": _check_additional, "pattern": _check_pattern}
    counted: dict[str, Any] = {word: partial(_check_counted, check) for word, check in checks.items()}
    return cast("Any", validators).create(Draft202012Validator.META_SCHEMA, counted, type_checker=_Types())


def _check_counted(check: Callable[..., _Errors], *arguments: object) -> _Errors:
    if next(_steps.get(), None) is None:
        raise _TooManyStepsError
    return check(*arguments)


def _check_additional(validator: Any, additional: Schema, value: object, schema: Schema) -> _Errors:  # noqa: ANN401
    """Do as the library does, but name each property as a place of its own."""
    for name, item in cast("Schema", value).items() if isinstance(value, dict) else ():
        if name not in schema.get("properties", {}):
            yield from validator.descend(item, additional, path=name)


def _check_reference(validator: Any, target: Schema, value: object, _: Schema) -> _Errors:  # noqa: ANN401
    return validator.descend(value, target)


def _check_pattern(_: object, pattern: str, value: object, __: Schema) -> _Errors:
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not _compile_pattern(pattern)(value):
        yield ValidationError("")


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> Callable[[str], object]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if not _OTHER_MEANING.search(pattern):
        try:
            return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
        except SchemaError:  # it looks around or back, which only Python's can
            pass
    return re.compile(pattern).search


def _find_problem(validator: Any, value: object) -> str | None:  # noqa: ANN401 - as above
    _steps.set(iter(range(_MAX_STEPS)))
    try:
        error = next(validator.iter_errors(value), None)
    except (RecursionError, _TooManyStepsError):
        return f"cannot be checked in {_MAX_STEPS:,} steps: too deep, or the schema refers to itself"
    return None if error is None else _describe(error)


def _describe(error: "ValidationError") -> str:
    place = ".".join(map(str, error.absolute_path))[:200] or "the value"
    return f"{place} {_describe_rule(str(error.validator), error.validator_value, error)}"


def _describe_rule(rule: str, argument: Any, error: "ValidationError") -> str:  # noqa: ANN401 - of a schema
    match rule:
        case "type":
            return f"must be {argument if isinstance(argument, str) else ' or '.join(argument)}"
        case "enum":
            return f"is none of the allowed values: {', '.join(map(repr, argument)):.200}"
        case "required":
            present = cast("Schema", error.instance)
            return f"lacks {next(name for name in argument if name not in present)!r:.80}"
        case "oneOf":
            return f"fits {'none' if error.context else 'more than one'} of the alternatives, not one"
        case _:
            return _PROBLEMS.get(rule, f"breaks the rule {rule!r}").format(argument)
