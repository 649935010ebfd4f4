"""The fields of a working memory, as a template or a schema declares them.

A template is text with `{{fields}}`, or Markdown whose labels are the fields. A schema is a Pydantic model
class or a JSON Schema. A working memory is filled in bit by bit, so no field is required. A field that is
present must be valid.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.memory.json_schema import compile_schema
from recollect.text.quoting import dump_json, indent_lines
from recollect.validation import check_json_object, check_text
from recollect.working_memory import is_blank

if TYPE_CHECKING:
    from pydantic import BaseModel


class FieldSet(Protocol):
    """The fields of a working memory, as a template or a schema declares them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        ...

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as text for the model; empty if all fields are."""
        ...

    def describe(self) -> str:
        """Return instructions for a model that fills in the fields."""
        ...

    def to_json_schema(self) -> Mapping[str, object]:
        """Return a JSON Schema of the fields."""
        ...

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Return the fields in the form to store; raise for a field that is unknown or invalid."""
        ...


def check_names(values: Iterable[str], fields: tuple[str, ...]) -> None:
    """Raise for a name that is not a field."""
    for name in values:
        if name not in fields:
            raise InvalidArgumentError(
                "patch", f"{name!r:.80} is not a field of this working memory; known: {', '.join(fields)}"
            )


_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
_BULLET = re.compile(r"\s*[-*+]\s+")
_BOLD = re.compile(r"(\*\*|__)(?P<label>(?:(?!\1)[^*:])+)(?::\1|\1\s*:)")
_PLAIN = re.compile(r"(?P<label>[^*:]+):")
_MAX_BYTES = 32 * 1024


class _Placeholder(NamedTuple):
    field: str


_TemplatePart: TypeAlias = str | _Placeholder


class Template:
    """A parsed template: text with placeholders for the fields.

    "- **Name**: their name" is parsed to "- **Name**: ", the placeholder `name` and a line break.
    """

    def __init__(self, text: str) -> None:
        """Find the fields; a template without fields raises."""
        self._text = check_text(text, "template", max_bytes=_MAX_BYTES)
        self._parts = _parse_placeholders(text) if _PLACEHOLDER.search(text) else _parse_labels(text)
        names = [part.field for part in self._parts if isinstance(part, _Placeholder)]
        if not names:
            raise InvalidArgumentError(
                "template",
                "has no fields; write {{name}} where a value belongs, or labels such as '- **Name**:'",
            )
        self._names = tuple(dict.fromkeys(names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in the order of the template."""
        return self._names

    def render(self, values: Mapping[str, object]) -> str:
        """Return the template with its fields filled in; empty if all fields are."""
        shown = {name: values[name] for name in self._names if name in values}
        if is_blank(shown):
            return ""
        return "".join(
            _render_value(shown.get(part.field, "")) if isinstance(part, _Placeholder) else part
            for part in self._parts
        ).strip("\n")

    def describe(self) -> str:
        """Return the template itself and the names of its fields."""
        names = json.dumps(self._names, ensure_ascii=False)
        return f"The fields are {names}. This is how they are shown:\n{self._text}"

    def to_json_schema(self) -> Mapping[str, object]:
        """Return an object of the fields; any value is valid."""
        fields = {name: dict[str, object]() for name in self._names}
        return {"type": "object", "properties": fields, "additionalProperties": False}

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Raise for a field that the template does not have; any value is valid."""
        check_names(values, self._names)
        return values


def _render_value(value: object) -> str:
    text = value if isinstance(value, str) else dump_json(value)
    return indent_lines(text)  # a line of the value must not look like a label


def _parse_placeholders(text: str) -> list[_TemplatePart]:
    parts: list[_TemplatePart] = []
    for place, part in enumerate(_PLACEHOLDER.split(text)):
        if place % 2 == 0:
            parts.append(part)
        elif name := part.strip():
            parts.append(_Placeholder(name))
        else:
            raise InvalidArgumentError("template", "holds {{}} without a name; write {{name}}")
    return parts


def _parse_labels(text: str) -> list[_TemplatePart]:
    parts: list[_TemplatePart] = []
    seen: set[str] = set()
    for line in text.splitlines():
        found = _parse_label(line)
        if found is None:
            parts.append(f"{line}\n")
            continue
        start, name = found
        if name in seen:
            raise InvalidArgumentError("template", f"two labels give the field {name!r}; rename one")
        seen.add(name)
        parts += [f"{start} ", _Placeholder(name), "\n"]
    return parts


def _parse_label(line: str) -> tuple[str, str] | None:
    """Return a line up to the colon of its label, and the field's name; None if it has no label.

    "- **Home town**: where they live" gives ("- **Home town**:", "home_town"). The text after the colon is a
    hint for the model that fills in the field; `render` leaves it out.
    """
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else len(line) - len(line.lstrip())
    found = _BOLD.match(line, start) or (_PLAIN.match(line, start) if bullet else None)
    if found is None:
        return None
    name = re.sub(r"\W+", "_", found["label"].casefold()).strip("_")
    return (line[: found.end()], name) if name else None


def read_schema(schema: object) -> FieldSet:
    """Return the fields that a Pydantic model class or a JSON Schema declares."""
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
        """Check the schema; it must describe an object with properties."""
        check_json_object(dict(schema), "schema")
        self._find_problem = compile_schema(schema)
        properties = schema.get("properties")
        if schema.get("type", "object") != "object" or not isinstance(properties, Mapping) or not properties:
            raise InvalidArgumentError(
                "schema", "must describe an object with 'properties', which are the fields"
            )
        self._schema = schema
        self._names = tuple(cast("Mapping[str, object]", properties))
        self._is_open = schema.get("additionalProperties", False) is not False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the properties."""
        return self._names

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as JSON; empty if all fields are."""
        return _render_json(values if self._is_open else _select(values, self._names))

    def describe(self) -> str:
        """Return the schema."""
        return _describe_schema(self._schema)

    def to_json_schema(self) -> Mapping[str, object]:
        """Return the schema itself."""
        return self._schema

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Raise for fields that the schema does not have or does not allow."""
        if not self._is_open:
            check_names(values, self._names)
        if problem := self._find_problem(values):
            raise InvalidArgumentError("patch", f"does not fit the schema: {problem}")
        return values


class ModelSchema:
    """Fields that a Pydantic model class describes."""

    def __init__(self, model: "type[BaseModel]") -> None:
        """Derive a model of the same fields, none of them required."""
        from pydantic import create_model

        self._model = model
        self._names = tuple(model.model_fields)
        if not self._names:
            raise InvalidArgumentError("schema", f"{model.__name__} has no fields")
        optional: dict[str, Any] = {
            name: (Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation, None)
            for name, info in model.model_fields.items()
        }
        self._partial: type[BaseModel] = create_model(f"{model.__name__}Patch", __base__=model, **optional)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the model's fields."""
        return self._names

    def render(self, values: Mapping[str, object]) -> str:
        """Return the fields as JSON; empty if all fields are."""
        return _render_json(_select(values, self._names))

    def describe(self) -> str:
        """Return the model's JSON Schema."""
        return _describe_schema(self.to_json_schema())

    def to_json_schema(self) -> Mapping[str, object]:
        """Return the model's own, with the names of its fields."""
        return self._model.model_json_schema(by_alias=False)

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Raise for fields that the model does not have or accept; return the others as it dumps them."""
        from pydantic import ValidationError

        check_names(values, self._names)
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


def _select(values: Mapping[str, object], fields: tuple[str, ...]) -> dict[str, object]:
    return {name: values[name] for name in fields if name in values}


def _render_json(values: Mapping[str, object]) -> str:
    return "" if is_blank(values) else dump_json(dict(values), indent=2)


def _describe_schema(schema: Mapping[str, object]) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    return f"The fields are the properties of this JSON Schema:\n{text}"
