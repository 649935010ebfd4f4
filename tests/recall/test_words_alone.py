"""Searches by words alone: which messages are ranked."""

from datetime import UTC, datetime

from hypothesis import given
from tests.recall import reference
from tests.recall.rows import SampleMessage, conversations, index_of, questions

from recollect.recall.question import parse_question
from recollect.recall.ranking import rank

NOW = datetime(2024, 3, 8, tzinfo=UTC)


@given(conversations, questions)
def test_messages_within_two_of_a_word_are_ranked(said: list[SampleMessage], text: str) -> None:
    """A message counts if it, or one of the two before and after it in its thread, has a word."""
    index, question = index_of(said), parse_question(text, NOW)
    terms = question.terms_without(question.find_names(index.speakers))
    has_word = [bool(set(terms) & set(reference.counts(message))) for message in said]
    links = reference.neighbours(said)
    expected: set[int] = set()
    for row in range(len(said)):
        near = [row]
        for side in (0, 1):
            step = row
            for _ in range(2):
                step = -1 if step == -1 else links[step][side]
                near.append(step)
        if any(has_word[step] for step in near if step != -1):
            expected.add(row)
    assert set(rank(index, question).order.tolist()) == expected
