"""The floor on our own texts: plain harm is found, and the same words in news, help or fiction pass."""

import json
from pathlib import Path

import pytest
from tests.support.contexts import context, new_run

from recollect import Message, ModerationProcessor
from recollect.guards.moderation.classifier import find_by_classifier
from recollect.guards.moderation.rules import find_by_rules

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent
DATA = FOLDER.parents[1] / "data"
HARMFUL = [line.split("\t") for line in (FOLDER / "harmful.txt").read_text("utf-8").splitlines()]
BENIGN = (FOLDER / "benign.txt").read_text("utf-8").splitlines()


def test_harm_is_found_when_it_is_said_plainly() -> None:
    """At least nine of ten harmful texts are found, in their category or another."""
    missed = [text for _, text in HARMFUL if not find_by_rules(text)]
    assert len(missed) <= len(HARMFUL) / 10, missed


def test_text_passes_when_it_only_speaks_about_harm() -> None:
    """At most two of a hundred benign texts with the same words are found."""
    found = [text for text in BENIGN if find_by_rules(text)]
    assert len(found) <= len(BENIGN) / 50, found


async def test_threat_is_found_when_a_text_is_long() -> None:
    """A threat at the end of a long prompt is found, at its place."""
    found: list[str] = []
    text = "The ferry leaves at nine, and we bring a coat. " * 400 + "I will kill you."
    guard = ModerationProcessor(
        strategy="warn", on_detection=lambda some, _: found.extend(text[one.start : one.end] for one in some)
    )
    await guard.process_input([Message("user", text)], context(new_run()))
    assert "I will kill you" in found


@pytest.mark.xdist_group("moderation classifier")
@pytest.mark.parametrize(
    ("texts", "has_classifier", "least", "most"),
    [
        ("moderation_unseen", False, 0.44, 0.04),
        ("moderation_fresh", False, 0.4, 0.02),
        ("moderation_unseen", True, 0.6, 0.06),
        ("moderation_fresh", True, 0.7, 0.02),
    ],
)
def test_what_another_author_wrote_keeps_its_floor(
    texts: str,
    has_classifier: bool,  # noqa: FBT001 - a parameter of the test
    least: float,
    most: float,
) -> None:
    """Texts whose author has not seen the rules, and on which nothing was fitted: do not fit any on them.

    The second file has no texts about minors.
    """
    rows = [json.loads(line) for line in (DATA / f"{texts}.jsonl").read_text("utf-8").splitlines()]
    found = dict.fromkeys((True, False), 0)
    for row in rows:
        found[row["harmful"]] += bool(find_by_rules(row["text"])) or (
            has_classifier and any(one.score >= 0.5 for one in find_by_classifier(row["text"]))
        )
    harmful = sum(row["harmful"] for row in rows)
    assert found[True] >= least * harmful
    assert found[False] <= most * (len(rows) - harmful)
