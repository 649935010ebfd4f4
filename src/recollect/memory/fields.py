"""The fields of a working memory, as a template or a schema declares them.

A template is text with `{{fields}}`, or Markdown whose labels are the fields. A schema is a Pydantic model
class or a JSON Schema. A working memory is filled in bit by bit, so no field is required; one that is there
must fit.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.memory.json_schema import compile_schema
from recollect.text.quoting import indent_lines
from recollect.validation import check_json_object, check_text
from recollect.working_memory import is_blank

if TYPE_CHECKING:
    from pydantic import BaseModel


class Shape(Protocol):
    """The fields of a working memory."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        ...

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as a model is shown them, or nothing where all are empty."""
        ...

    def describe(self) -> str:
        """Return what a model needs to know to fill in the fields."""
        ...

    def checked(self, values: dict[str, object]) -> dict[str, object]:
        """Return the fields as they may be kept; an error for one that is unknown or does not fit."""
        ...


def check_names(values: Iterable[str], fields: tuple[str, ...]) -> None:
    """Refuse names that are not fields."""
    for name in values:
        if name not in fields:
            raise InvalidArgumentError(
                "patch", f"{name!r:.80} is not a field of this working memory; known: {', '.join(fields)}"
            )


_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
_BULLET = re.compile(r"\s*[-*+]\s+")
_BOLD = re.compile(r"(\*\*|__)(?P<label>(?:(?!\1)[^*:])+)(?::\1|\1\s*:)")
_PLAIN = re.compile(r"(?P<label>[^*:]+):")
_LONGEST = 32 * 1024


class _Slot(NamedTuple):
    field: str


_Piece: TypeAlias = str | _Slot


class Template:
    """A template that was read: text, and the places of its fields."""

    def __init__(self, text: str) -> None:
        """Find the fields; a template without any is an error that says what to write."""
        self._text = check_text(text, "template", max_bytes=_LONGEST)
        self._pieces = _placeholders(text) if _PLACEHOLDER.search(text) else _labels(text)
        names = [piece.field for piece in self._pieces if isinstance(piece, _Slot)]
        if not names:
            raise InvalidArgumentError(
                "template",
                "has no fields; write {{name}} where a value belongs, or labels such as '- **Name**:'",
            )
        self._fields = tuple(dict.fromkeys(names))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in the order of the template."""
        return self._fields

    def render(self, values: Mapping[str, object]) -> str:
        """Return the template with its fields filled in, or nothing where all are empty."""
        shown = {name: values[name] for name in self._fields if name in values}
        if is_blank(shown):
            return ""
        return "".join(
            _shown(shown.get(piece.field, "")) if isinstance(piece, _Slot) else piece
            for piece in self._pieces
        ).strip("\n")

    def describe(self) -> str:
        """Return the template itself and the names of its fields."""
        names = json.dumps(self._fields, ensure_ascii=False)
        return f"The fields are {names}. This is how they are shown:\n{self._text}"

    def checked(self, values: dict[str, object]) -> dict[str, object]:
        """Refuse fields that the template does not have; what is in them is free."""
        check_names(values, self._fields)
        return values


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return indent_lines(text)  # so that no value looks like a label of its own


def _placeholders(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for place, piece in enumerate(_PLACEHOLDER.split(text)):
        if place % 2 == 0:
            pieces.append(piece)
        elif name := piece.strip():
            pieces.append(_Slot(name))
        else:
            raise InvalidArgumentError("template", "holds {{}} without a name; write {{name}}")
    return pieces


def _labels(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    seen: set[str] = set()
    for line in text.splitlines():
        found = _label(line)
        if found is None:
            pieces.append(f"{line}\n")
            continue
        start, name = found
        if name in seen:
            raise InvalidArgumentError("template", f"two labels give the field {name!r}; rename one")
        seen.add(name)
        pieces += [f"{start} ", _Slot(name), "\n"]
    return pieces


def _label(line: str) -> tuple[str, str] | None:
    """Return a line up to the colon of its label, and the label as a name; None if it has no label.

    What stands behind the colon is a hint for whoever fills the field in, and is not shown.
    """
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else len(line) - len(line.lstrip())
    found = _BOLD.match(line, start) or (_PLAIN.match(line, start) if bullet else None)
    if found is None:
        return None
    name = re.sub(r"\W+", "_", found["label"].casefold()).strip("_")
    return (line[: found.end()], name) if name else None


def read_schema(schema: object) -> Shape:
    """Return the shape that a schema describes."""
    if isinstance(schema, Mapping):
        return JsonSchema(cast("Mapping[str, object]", schema))
    if isinstance(schema, type):
        from pydantic import BaseModel, RootModel

        if issubclass(schema, BaseModel) and not issubclass(schema, RootModel):
            return ModelSchema(schema)
    raise InvalidArgumentError(
        "schema", f"must be a Pydantic model class or a JSON Schema as a dict, not {schema!r:.60}"
    )


class JsonSchema:
    """Fields that a JSON Schema describes."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Check the schema; it must be one of an object with properties."""
        check_json_object(dict(schema), "schema")
        self._find_problem = compile_schema(schema)
        properties = schema.get("properties")
        if schema.get("type", "object") != "object" or not isinstance(properties, Mapping) or not properties:
            raise InvalidArgumentError(
                "schema", "must describe an object with 'properties', which are the fields"
            )
        self._schema = schema
        self._fields = tuple(cast("Mapping[str, object]", properties))
        self._is_open = schema.get("additionalProperties", False) is not False

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the properties."""
        return self._fields

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as JSON, or nothing where all are empty."""
        return _as_json(values if self._is_open else _known(values, self._fields))

    def describe(self) -> str:
        """Return the schema."""
        return _described(self._schema)

    def checked(self, values: dict[str, object]) -> dict[str, object]:
        """Refuse fields that the schema does not have, or that do not fit it."""
        if not self._is_open:
            check_names(values, self._fields)
        if problem := self._find_problem(values):
            raise InvalidArgumentError("patch", f"does not fit the schema: {problem}")
        return values


class ModelSchema:
    """Fields that a Pydantic model class describes."""

    def __init__(self, model: "type[BaseModel]") -> None:
        """Make a model of the same fields, none of them required."""
        from pydantic import create_model

        self._model = model
        self._fields = tuple(model.model_fields)
        if not self._fields:
            raise InvalidArgumentError("schema", f"{model.__name__} has no fields")
        optional: dict[str, Any] = {
            name: (Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation, None)
            for name, info in model.model_fields.items()
        }
        self._partial: type[BaseModel] = create_model(f"{model.__name__}Patch", __base__=model, **optional)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the model's fields."""
        return self._fields

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as JSON, or nothing where all are empty."""
        return _as_json(_known(values, self._fields))

    def describe(self) -> str:
        """Return the model's JSON Schema."""
        return _described(self._model.model_json_schema(by_alias=False))

    def checked(self, values: dict[str, object]) -> dict[str, object]:
        """Refuse fields that the model does not have or does not take; return them as it writes them."""
        from pydantic import ValidationError

        check_names(values, self._fields)
        try:
            value = self._partial.model_validate(values, by_alias=False, by_name=True)
            dumped = value.model_dump(mode="json", exclude_unset=True, by_alias=False)
        except ValidationError as error:
            # Without the value: a trace or a log must not quote what people said.
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "all fields"
            raise InvalidArgumentError("patch", f"does not fit the schema: {place}: {first['msg']}") from None
        except Exception as error:
            raise InvalidArgumentError(
                "patch", f"does not fit the schema: {type(error).__name__} in {self._model.__name__}"
            ) from error
        kept = {name for name, info in self._model.model_fields.items() if not info.exclude}
        return {name: dumped[name] for name in values if name in kept}


def _known(values: Mapping[str, object], fields: tuple[str, ...]) -> dict[str, object]:
    return {name: values[name] for name in fields if name in values}


def _as_json(values: Mapping[str, object]) -> str:
    return "" if is_blank(values) else json.dumps(dict(values), ensure_ascii=False, indent=2)


def _described(schema: Mapping[str, object]) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    return f"The fields are the properties of this JSON Schema:\n{text}"
