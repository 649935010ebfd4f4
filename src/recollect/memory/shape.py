"""What a template and a schema have in common: they say which fields there are and how they are shown."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from recollect.errors import InvalidArgumentError


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
