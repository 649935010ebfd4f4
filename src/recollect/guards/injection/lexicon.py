"""The words that rules about prompt injection know, in classes of one letter each.

A text becomes a string with one letter for each word, and the rules are patterns over that string. So a rule
says "a verb of dismissal, then something earlier, then a word for instructions" in all languages at once. The
words stand in `lexicon.txt`. The letter `u` is for addresses, `x` for words that nobody knows.
"""

from __future__ import annotations

import re
from importlib import resources

GLUE = frozenset(
    re.findall(
        r"\w+",
        """all any the and your my to of is me in on it a i you say not with for now only from that this what
        as at be do no so or""",
    )
)
"""Small words that may stand between known ones where all spaces were left out."""

CORE = tuple(
    re.findall(
        r"\w+",
        """ignore disregard forget override bypass previous prior earlier above instruction instructions
        directive directives prompt prompts command commands guidelines guideline system secret password
        access granted reveal display repeat output respond reply answer restrictions restriction hidden
        developer unrestricted jailbreak code""",
    )
)
"""Words that are known even if letters are swapped or missing."""


def classes() -> list[tuple[str, list[str]]]:
    """Read the classes: for each letter its words, in the order of the file."""
    text = resources.files(__package__ or "").joinpath("lexicon.txt").read_text("utf-8")
    _, *sections = text.split("\n[")
    return [(section[0], _words(section.partition("\n")[2])) for section in sections]


def _words(lines: str) -> list[str]:
    """Return the words of a class; a phrase may go on in the next line."""
    return [word for word in (" ".join(part.split()) for part in lines.split(",")) if word]
