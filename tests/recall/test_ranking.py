"""Ranking: its parts sum to the score, masks hold, ranks are true, and odd input is harmless."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recall import reference
from tests.recall.rows import VECTOR, WORDS, SampleMessage, conversations, index_of, questions

from recollect.recall.index.user_index import ThreadKey
from recollect.recall.question import Question, parse_question
from recollect.recall.ranking import CANDIDATES, Ranking, rank

NOW = datetime(2024, 3, 8, tzinfo=UTC)
THREAD = ("a", "p", "t")


def asked(text: str) -> Question:
    """Parse a question."""
    return parse_question(text, NOW)


def ranked(
    said: list[SampleMessage], text: str, *, vector: bool, thread: tuple[str, str, str] | None = None
) -> Ranking:
    """Rank messages, or those of one thread."""
    index = index_of(said)
    mask = None if thread is None else index.thread_of == index.threads.get(ThreadKey(*thread), -5)
    return rank(index, asked(text), VECTOR if vector else None, wanted=mask)


@given(conversations, questions, st.booleans(), st.sampled_from([None, THREAD]))
def test_every_ranking_is_explained_and_in_order(
    said: list[SampleMessage],
    text: str,
    vector: bool,  # noqa: FBT001 - Hypothesis gives it
    thread: tuple[str, str, str] | None,
) -> None:
    """Scores fall along the order, are finite, and are the sums of their parts; masks hold."""
    ranking = ranked(said, text, vector=vector, thread=thread)
    order: list[int] = ranking.order.tolist()
    assert len(order) == len(set(order))
    scores = [float(ranking.scores[row]) for row in order]
    assert all(map(math.isfinite, scores))
    assert scores == sorted(scores, reverse=True)
    inside = [row for row, message in enumerate(said) if thread in (None, message.thread)]
    assert set(order) <= set(inside)
    assert ranking.searched == len(inside)
    if vector:
        assert set(order) == set(inside)
    for row in order:
        why = ranking.why(row)
        assert math.isclose(sum(why.parts.values()), ranking.scores[row], abs_tol=0.002)
        assert 0 <= ranking.relevance[row] <= 1.0001
        assert (why.text_rank is None) == (not why.matched_terms)
        assert (why.vector_score is None) == (not vector or not said[row].segments)


@given(conversations, questions, st.sampled_from([None, THREAD]))
def test_ranks_are_true(said: list[SampleMessage], text: str, thread: tuple[str, str, str] | None) -> None:
    """The best text score has rank 1, the best cosine too, among what was searched."""
    ranking = ranked(said, text, vector=True, thread=thread)
    order: list[int] = ranking.order.tolist()
    whys = {row: ranking.why(row) for row in order}
    for row, why in whys.items():
        if why.text_rank is not None:
            assert why.text_rank == 1 + sum(other.text_score > why.text_score for other in whys.values())
        if why.vector_score is not None:
            better = [
                o for o in whys.values() if o.vector_score is not None and o.vector_score > why.vector_score
            ]
            assert why.vector_rank == 1 + len(better)
            assert math.isclose(why.vector_score, reference.cosine(said[row], VECTOR.tolist()), abs_tol=1e-5)


@given(
    conversations,
    st.sampled_from(["cello", "dog thunder", "yellow kitchen xylophone", " ".join((*WORDS, "xylophone"))]),
)
def test_relevance_is_the_share_of_words_when_there_is_no_vector(
    said: list[SampleMessage], text: str
) -> None:
    """By words alone, relevance is the share of the question's words; those of neighbours count half."""
    ranking = ranked(said, text, vector=False)
    expected = reference.relevance(said, asked(text).terms)
    assert np.allclose(ranking.relevance, expected, rtol=1e-4, atol=1e-5)


@given(conversations, questions)
def test_only_what_is_near_a_match_is_found_when_there_is_no_vector(
    said: list[SampleMessage], text: str
) -> None:
    """By words alone a row is a hit if it, or one of the two before or after it in its thread, matches."""
    ranking = ranked(said, text, vector=False)
    names = asked(text).find_names({message.speaker for message in said if message.speaker})
    terms = set(asked(text).terms_without(names))
    matches = {row for row, message in enumerate(said) if terms & set(reference.counts(message))}
    near = {row for row, around in enumerate(reference.find_nearby(said)) if around & matches}
    assert set(ranking.order.tolist()) == near


def test_other_threads_do_not_move_a_message_when_they_are_masked() -> None:
    """Neighbours count within a thread only, though the messages of two are interleaved."""
    here = [SampleMessage([word], THREAD) for word in ("train", "cello", "train")]
    there = [SampleMessage(["rocket"], ("a", "p", "u"))] * 3
    mixed = [message for pair in zip(here, there, strict=True) for message in pair]
    ranking = ranked(mixed, "cello", vector=False)
    assert ranking.order.tolist()[0] == 2
    assert set(ranking.order.tolist()) == {0, 2, 4}


def test_more_rows_are_ranked_when_some_are_left_out() -> None:
    """The number of candidates grows by what the caller leaves out."""
    said = [SampleMessage(["cello"], THREAD)] * (CANDIDATES + 100)
    index = index_of(said)
    assert len(rank(index, asked("cello")).order) == CANDIDATES
    assert len(rank(index, asked("cello"), spare=60).order) == CANDIDATES + 60
    assert len(rank(index, asked("cello"), spare=999).order) == CANDIDATES + 100


@pytest.mark.parametrize("vector", [True, False])
def test_one_row_and_none_are_ranked(vector: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A memory of one message finds it; an empty one finds nothing."""
    assert ranked(
        [SampleMessage(["cello"], segments=[[1.0] * 4])], "cello", vector=vector
    ).order.tolist() == [0]
    assert ranked([], "cello", vector=vector).order.tolist() == []
    assert ranked([SampleMessage(["cello"])], "dog", vector=False).order.tolist() == []


def test_hundreds_of_terms_are_cut_to_sixty_four() -> None:
    """A long question is ranked by as many terms as there are bits."""
    words = [f"word{n}" for n in range(300)]
    ranking = ranked([SampleMessage(words), SampleMessage(words[70:])], " ".join(words), vector=False)
    assert ranking.order.tolist()[0] == 0
    assert len(ranking.why(0).matched_terms) == 64


def test_speaker_is_preferred_when_the_question_names_one() -> None:
    """Of two that said the same, the one who is asked about comes first; her name is no search term."""
    said = [SampleMessage(["cello"], ("a", "p", name), speaker=name) for name in ("Bob", "Ann", "Cleo")]
    for name, row in (("Ann", 1), ("Bob", 0)):
        ranking = ranked(said, f"What is {name}'s cello?", vector=False)
        assert ranking.order.tolist()[0] == row
        assert ranking.why(row).parts["speaker"] > 0
        assert ranking.why(row).matched_terms == ("cello",)


def test_message_of_the_time_is_preferred_when_the_question_names_one() -> None:
    """A question about last week puts what was said then first, and says so."""
    week, year = 7 * 86_400_000_000, 365 * 86_400_000_000
    now = int(NOW.timestamp()) * 1_000_000
    said = [
        SampleMessage(["cello"], ("a", "p", str(n)), time=now - ago) for n, ago in enumerate((year, week, 0))
    ]
    ranking = ranked(said, "What about the cello last week?", vector=False)
    assert ranking.order.tolist()[0] == 1
    assert ranking.why(1).parts["time"] > 0
    assert ranking.why(0).parts["time"] == 0


def test_names_with_odd_characters_are_harmless() -> None:
    """A speaker may be called anything."""
    for name in (".*", "(", "Ann Lee", "\\", "[a-z]+", "Żółć", "x" * 5_000, "a|b"):
        said = [SampleMessage(["cello"], speaker=name), SampleMessage(["dog"], speaker="Bob")]
        assert ranked(said, f"What of {name}'s cello?", vector=False).order.tolist()[0] == 0
