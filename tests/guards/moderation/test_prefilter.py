"""Which rules can match a text: the quick look leaves out nothing that the patterns would find."""

import re
from pathlib import Path

import pytest

from recollect.guards.moderation.prefilter import find_needed, select_possible

FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"(?:kill|murder)(?:ing)?\s{1,4}(?:all )?(?:you|them)", {"kill", "murder"}),
        (r"\bI will (?:not )?stop", {"i will ", "stop"}),
        (r"(?:poison){1,3}+", {"poison"}),
        (r"(?:a|\w)b?", set[str]()),
        (r"[kc]ill?", {"il"}),
        ("", set[str]()),
        ("(?:tea|)time?", {"tim"}),
        ("(poison) (?=tea)", {"poison"}),
    ],
)
def test_pieces_are_those_of_which_one_must_occur(pattern: str, needed: set[str]) -> None:
    """The longest that a pattern needs; nothing where a part of it may be anything."""
    found = find_needed(re.compile(pattern, re.IGNORECASE))
    assert found <= needed
    assert bool(found) == bool(needed)


def test_no_pattern_is_left_out_that_matches() -> None:
    """On the texts of the floor, whatever their case."""
    words = re.compile(r"(?:\w+ing|st\w+) (?:you|them|us)|kill(?:ed)?|gro(?:ß|ss)", re.IGNORECASE)
    text = (FOLDER / "harmful.txt").read_text("utf-8")
    for line in (*text.splitlines(), "KILL", "\u212aill", "GRO\u1e9e"):
        if words.search(line):
            assert select_possible(line, [find_needed(words)]) == [True]
    assert select_possible("a ferry", [find_needed(re.compile("kill")), frozenset()]) == [False, True]
