"""What our Pydantic models say of wrong values: the place and the rule, never the value."""

import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, SecretStr, ValidationError

from recollect.model_validation import Id, StrictModel, Text, find_problem
from recollect.validation import check_json_object

HIDDEN = "uk_hidden"


class Inner(StrictModel):
    """A model within the other."""

    size: Annotated[int, Field(ge=1, le=1_000)] = 1
    share: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5


class Outer(StrictModel):
    """A model with one field of each kind."""

    id: Id
    text: Text = ""
    flag: bool = False
    word: Literal["before", "after"] = "before"
    items: tuple[Inner, ...] = ()
    key: SecretStr | None = None
    data: Annotated[dict[str, Any], AfterValidator(lambda value: check_json_object(value, ""))] = Field(
        default_factory=dict[str, Any]
    )


@pytest.mark.parametrize(
    ("values", "place", "problem"),
    [
        ({"id": None}, "id", "must be text, not null"),
        ({"id": ""}, "id", "must not be empty"),
        ({"id": [HIDDEN]}, "id", "must be text, not a list"),
        ({"id": SecretStr(HIDDEN)}, "id", "must be text, not a secret"),
        ({"text": {HIDDEN: 1}}, "text", "must be text, not an object"),
        ({"text": f"{HIDDEN}\0"}, "text", "must not contain the NUL character (U+0000)"),
        ({"flag": HIDDEN}, "flag", "must be true or false, not text"),
        ({"flag": 1}, "flag", "must be true or false, not a whole number"),
        ({"word": HIDDEN}, "word", 'must be "before" or "after"'),
        ({"word": [HIDDEN]}, "word", 'must be "before" or "after", not a list'),
        ({"items": HIDDEN}, "items", "must be a list [ … ], not text"),
        ({"items": (HIDDEN,)}, "items[0]", "must be an object { … }, not text"),
        ({"items": ({"size": 0},)}, "items[0].size", "must be 1 or more"),
        ({"items": ({"size": 1001},)}, "items[0].size", "must be 1,000 or less"),
        ({"items": ({"size": True},)}, "items[0].size", "must be a whole number, not true or false"),
        ({"items": ({"size": 1.0},)}, "items[0].size", "must be a whole number, not a decimal number"),
        ({"items": ({"share": 0},)}, "items[0].share", "must be more than 0"),
        ({"items": ({"share": float("nan")},)}, "items[0].share", "must be a finite number"),
        ({"items": ({"share": HIDDEN},)}, "items[0].share", "must be a number, not text"),
        ({"data": {"a": [object]}}, "data.a[0]", "type is not JSON"),
        ({"data": {"\0": 1}}, "data.a key of the object", "must not contain the NUL character (U+0000)"),
        ({"more": HIDDEN}, "more", "is not known here"),
        ({"id": object()}, "id", "must be text, not that"),
    ],
)
def test_problem_names_the_place_and_the_rule(values: dict[str, Any], place: str, problem: str) -> None:
    """Pydantic itself does not quote the value either."""
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"id": "x", **values})
    assert find_problem(caught.value) == (place, problem)
    assert HIDDEN not in str(caught.value)


def test_missing_value_is_named() -> None:
    """The first of several problems is told."""
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({})
    assert find_problem(caught.value) == ("id", "is missing")


def test_model_is_not_pickled() -> None:
    """It may hold secrets."""
    with pytest.raises(TypeError, match="Outer cannot be pickled: it may hold secrets"):
        pickle.dumps(Outer(id="x"))
