"""Schemas: a Pydantic model class, or a JSON Schema as a dict.

A working memory is filled in bit by bit, so no field of it is required. A field that is there must fit.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from recollect.errors import InvalidArgumentError
from recollect.memory.json_schema import check_schema, find_problem
from recollect.memory.shape import Shape, check_names
from recollect.validation import check_json_object
from recollect.working_memory.merge import is_blank

if TYPE_CHECKING:
    from pydantic import BaseModel


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
        check_schema(schema)
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
        if problem := find_problem(values, self._schema):
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
