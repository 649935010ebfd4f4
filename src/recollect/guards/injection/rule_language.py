"""Compiles the patterns of `rules.txt` to regular expressions over the letters of word classes.

`rules.txt` explains the notation. An example, in which the letter of DISMISS is D, that of PRIOR P and so on:

    DISMISS short-gap(3 not OTHERS) PRIOR/ALL INSTRUCTION not-followed-by(OF THE?)
    D       [^.M]{0,3}?             [PA]      I           (?!fe?)

Every gap has a limit, so that a hostile text costs no more than its length.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASSES = r"[A-Z][A-Z-]*(?:[/+][A-Z][A-Z-]*)*"
_TOKEN = re.compile(
    rf"(?P<classes>{_CLASSES})"
    rf"|(?P<gap>gap|short-gap)\((?P<size>\d+)(?: not (?P<excluded>{_CLASSES}))?\)"
    rf"|up-to\((?P<most>\d+) (?P<repeated>{_CLASSES})\)"
    rf"|any\((?P<any>{_CLASSES})\)"
    rf"|start-or-after\((?P<before>{_CLASSES})\)"
    r"|quoted\((?P<quoted>\d+)\)"
    r"|(?P<look>followed-by|not-followed-by|after|not-after)\("
    # The class after a place, unless it may be missing.
    rf"|(?P<name>[a-z][a-z-]*)(?=(?:\s+(?P<next>{_CLASSES})(?![A-Z/+?-]))?)"
    r"|(?P<symbol>[()|?])|\s+|(?P<mistake>.)"
)
_LOOKS = {"followed-by": "(?=", "not-followed-by": "(?!", "after": "(?<=", "not-after": "(?<!"}
_USAGE = {
    "gap": "gap(3) or gap(3 not A/B)",
    "short-gap": "short-gap(3) or short-gap(3 not A/B)",
    "up-to": "up-to(3 A/B)",
    "quoted": "quoted(3)",
    **{name: f"{name}(A/B)" for name in ("any", "start-or-after", *_LOOKS)},
}


class RuleError(ValueError):
    """A rule cannot be read."""


class PatternCompiler:
    """Compiles patterns with the letters of the classes and the names that were defined."""

    def __init__(self, letters: Mapping[str, str]) -> None:
        """Take the letter of each class; STOP and QUOTE must be among them."""
        self._letters = letters
        self._places = {"text-start": r"\A", "text-end": r"\Z"}
        self._phrases: dict[str, str] = {}

    def define_place(self, name: str, pattern: str) -> None:
        """Name a pattern that takes up no words, for patterns that are compiled later."""
        self._places[name] = f"(?:{self.compile(pattern).pattern})"

    def define_phrase(self, name: str, pattern: str) -> None:
        """Name a pattern that takes up words, for patterns that are compiled later."""
        self._phrases[name] = f"(?:{self.compile(pattern).pattern})"

    def compile(self, pattern: str) -> re.Pattern[str]:
        """Return a pattern as a regular expression; raise a RuleError if it has a mistake."""
        regex = "".join(self._translate(token) for token in _TOKEN.finditer(pattern))
        try:
            return re.compile(regex)
        except re.error as error:
            raise RuleError(f"brackets, '|' or '?' do not fit together: {error.msg}") from None

    def _translate(self, token: re.Match[str]) -> str:  # noqa: PLR0911 - one for each kind of token
        if token["classes"]:
            return self._one_of(token["classes"])
        if token["gap"]:
            end = "?" if token["gap"] == "short-gap" else ""
            return f"{self._gap_word(token['excluded'])}{{0,{token['size']}}}{end}"
        if token["most"]:
            return f"{self._one_of(token['repeated'])}{{0,{token['most']}}}"
        if token["any"]:
            return f"{self._one_of(token['any'])}*"
        if token["before"]:
            return f"(?<![^{self._escape(token['before'])}])"
        if token["quoted"]:
            quote = self._escape("QUOTE")
            return f"{quote}[^{quote}]{{1,{token['quoted']}}}{quote}"
        if token["look"]:
            return _LOOKS[token["look"]]
        if token["name"]:
            return self._resolve(token["name"], token["next"])
        if token["mistake"]:
            raise RuleError(f"{token[0]!r} means nothing in a pattern")
        return "(?:" if token[0] == "(" else token[0].strip()

    def _gap_word(self, excluded: str | None) -> str:
        """Return any word of a sentence but some; `A+B` excludes an A before a B."""
        names = excluded.split("/") if excluded else []
        firsts = "/".join(["STOP", *(name.partition("+")[0] for name in names)])
        word = f"[^{self._escape(firsts)}]"
        pairs = [name.split("+") for name in names if "+" in name]
        allowed = [f"{self._escape(first)}(?!{self._escape(second)})" for first, second in pairs]
        return f"(?:{'|'.join([word, *allowed])})" if pairs else word

    def _one_of(self, names: str) -> str:
        letters = self._escape(names)
        return f"[{letters}]" if "/" in names else letters

    def _escape(self, names: str) -> str:
        return "".join(re.escape(_look_up(name, self._letters)) for name in names.split("/"))

    def _resolve(self, name: str, classes: str | None) -> str:
        if name in _USAGE:
            raise RuleError(f"write {_USAGE[name]}")
        if name in self._phrases:
            return self._phrases[name]
        regex = _look_up(name, self._places)
        # What is cheap to see, the word itself, is looked at before the place it stands in.
        return f"(?={self._one_of(classes)}){regex}" if classes else regex


def _look_up(name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return known[name]
    near = get_close_matches(name, [*known, *_USAGE], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise RuleError(f"nothing is called {name}{hint}")
