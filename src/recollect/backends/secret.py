"""A secret that shows itself nowhere but where it is asked for by name."""

from typing import NoReturn, final

from recollect.errors import InvalidArgumentError
from recollect.validation import check_text

HIDDEN = "**********"
"""What a secret looks like wherever it is printed."""


@final
class Secret:
    """A text that no repr, format, log or pickle shows; `reveal` is the one way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: object) -> None:
        """Hold a text that is not empty."""
        if not isinstance(text, str) or not text.strip():
            # The value itself, whatever it is, stays out of the message.
            raise InvalidArgumentError("secret", "must be text that is not empty")
        self._text = check_text(text, "secret")

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        """Show that there is one, and nothing of it, not even its length."""
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        """Show nothing of it."""
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        """Refuse to be written out."""
        raise TypeError("a secret cannot be pickled or copied")
