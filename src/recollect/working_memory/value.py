"""The value of a working memory at one version: its fields read as keys and as attributes."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from recollect.errors import InvalidArgumentError
from recollect.validation import check_json_object, json_text

MAX_BYTES = 64 * 1024
"""The largest working memory as JSON, in bytes of UTF-8: it is shown with every prompt."""

KEPT_VERSIONS = 100
"""How many versions of a working memory are kept to go back to."""


class WorkingMemory(Mapping[str, object]):
    """The fields that are kept about a user or a thread; `memory["name"]` and `memory.name` are the same.

    A field of the template or schema that holds nothing reads as None. A field whose name is also that of an
    attribute or method here (`version`, `items`, …) is read as a key. Version 0 is one that nobody wrote.
    """

    __slots__ = ("_fields", "_values", "run_id", "updated_at", "version")

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        version: int = 0,
        updated_at: datetime | None = None,
        run_id: str | None = None,
        fields: Iterable[str] = (),
    ) -> None:
        """Take the values, their version, when and in which run they were written, and all known fields."""
        self._values = dict(values or {})
        self._fields = frozenset(fields)
        self.version = version
        self.updated_at = updated_at
        self.run_id = run_id

    def with_fields(self, fields: Iterable[str]) -> "WorkingMemory":
        """Return the same value that knows which fields there could be."""
        return WorkingMemory(
            self._values,
            version=self.version,
            updated_at=self.updated_at,
            run_id=self.run_id,
            fields=fields,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields that hold something."""
        return dict(self._values)

    def __getitem__(self, name: str) -> object:
        """Return a field; one that is known but holds nothing is None."""
        if name in self._values:
            return self._values[name]
        if name in self._fields:
            return None
        raise KeyError(name)

    def __getattr__(self, name: str) -> object:
        """Return a field; one that is known but holds nothing is None."""
        if not name.startswith("__") and name not in WorkingMemory.__slots__:
            try:
                return self[name]
            except KeyError:
                pass
        raise AttributeError(f"working memory has no field {name!r}")

    def get(self, name: str, default: object = None) -> object:
        """Return a field that holds something, or the default."""
        return self._values.get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether a field holds something."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the fields that hold something."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the fields that hold something."""
        return len(self._values)

    def __repr__(self) -> str:
        """Show the fields and the version."""
        return f"WorkingMemory({self._values!r}, version={self.version})"


def encode(values: object, argument: str) -> str:
    """Write fields as JSON; an error where they are no JSON object or too large to be shown to a model."""
    text = json_text(check_json_object(values, argument), argument)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise InvalidArgumentError(
            argument,
            f"working memory would be {size:,} bytes long; at most {MAX_BYTES:,} are allowed, because it is "
            "shown with every prompt",
        )
    return text
