"""What our Pydantic models share: strict, frozen, and errors that quote no value.

Apart from `validation`, because Pydantic loads when it is first used.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple, NoReturn, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, ValidationError

from recollect.errors import InvalidArgumentError
from recollect.validation import check_id, check_text

_PROBLEMS = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object {{ … }}",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "int_type": "must be a whole number",
    "json_invalid": "is not JSON ({error})",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be an object {{ … }}",
    "model_type": "must be an object {{ … }}",
    "path_type": "must be text",
    "string_type": "must be text",
    "string_unicode": "is not valid text",
    "tenant_type": "must be a whole number, text or null",
    "tuple_type": "must be a list [ … ]",
    "union_tag_invalid": "{discriminator} is missing or unknown",
    "union_tag_not_found": "{discriminator} is missing or unknown",
}
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a decimal number"),
    (str, "text"),
    (dict, "an object"),
    ((list, tuple), "a list"),
    (SecretStr, "a secret"),
    (type(None), "null"),
)


class Problem(NamedTuple):
    """Where a value does not fit its model, and why; the value itself is not in it."""

    place: str
    problem: str


class StrictModel(BaseModel):
    """A model that takes no other types, no unknown names and no changes, and may hold secrets."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True
    )

    def __reduce__(self) -> NoReturn:
        # A pickle would show the secrets.
        raise TypeError(f"{type(self).__name__} cannot be pickled: it may hold secrets")


def find_problem(error: ValidationError) -> Problem:
    """Return the first problem of several; a name in our own errors is a part of the place."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in first["loc"])
    context: dict[str, Any] = first.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, InvalidArgumentError):
        inner = cause.argument if cause.argument[:1] in (".", "[") else f".{cause.argument}"
        return Problem((place + inner).strip("."), cause.problem)
    return Problem(place.lstrip("."), _describe(first["type"], context, first["input"]))


def _describe(kind: str, context: dict[str, Any], value: object) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not known here"
    bounds = {name: f"{bound:,}".removesuffix(".0") for name, bound in context.items() if _is_number(bound)}
    problem = _PROBLEMS.get(kind, "does not fit").format_map(context | bounds).replace("'", '"')
    is_other_type = kind.endswith("_type") or (kind == "literal_error" and not isinstance(value, str))
    return f"{problem}, not {_kind_of(value)}" if is_other_type else problem


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _kind_of(value: object) -> str:
    return next((words for kinds, words in _KINDS if isinstance(value, kinds)), "that")


# The place in the model names the argument. `partial` is called faster than a function of ours would be.
Text: TypeAlias = Annotated[str, AfterValidator(partial(check_text, argument=""))]
"""Text that both engines can keep."""

Id: TypeAlias = Annotated[str, AfterValidator(partial(check_id, argument=""))]
"""A name of a user, a thread, a message or the like."""
