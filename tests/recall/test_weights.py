"""The weights of ranking: each is of a feature, is documented, and its part adds to the score."""

import math
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.recall.rows import VECTOR, SampleMessage, index_of

from recollect.recall.index.user_index import UserIndex
from recollect.recall.question import parse_question
from recollect.recall.ranking import HYBRID, choose_words_weights, make_features, rank, read_weights

QUESTION = parse_question("When did Ann see the cello yesterday?", datetime(2024, 3, 8, tzinfo=UTC))
_PAGE = Path(__file__).parents[2] / "docs" / "recall.md"


def index_of_chat(*, with_assistant: bool) -> UserIndex:
    """Return the index of a chat of two threads, between two people or with an assistant."""
    return index_of(
        [
            SampleMessage(
                ["cello", "yesterday", *(["train"] * 20 if with_assistant and n % 2 else [])],
                ("a", "p", f"t{n // 4}"),
                is_assistant=n % 2 == 1,
                speaker="Ann" if n % 3 else "Bob",
                asks=n % 2 == 0,
                segments=[[0.5, 0.25 * (n % 3), 0.5, 0.5]],
            )
            for n in range(8)
        ]
    )


def test_there_are_weights_for_each_kind_of_search() -> None:
    """With vectors there is one set, and by words alone one for each kind of chat."""
    assert set(read_weights()) == {HYBRID, *(choose_words_weights(with_assistant=s) for s in (True, False))}


@pytest.mark.parametrize("kind", list(read_weights()))
def test_every_weight_is_that_of_a_feature(kind: str) -> None:
    """A name that no feature has would fail every search; a weight of 0 would be work for nothing."""
    index = index_of_chat(with_assistant="assistant" in kind)
    features = make_features(index, QUESTION, VECTOR if kind == HYBRID else None)
    found = features.compute(np.arange(len(index)))
    weights = read_weights()[kind]
    assert weights.keys() <= found.keys()
    assert all(weights.values())
    assert all(values.shape == (len(index),) and np.isfinite(values).all() for values in found.values())


@pytest.mark.parametrize("kind", list(read_weights()))
def test_parts_have_the_names_of_the_weights_and_sum_to_the_score(kind: str) -> None:
    """Each kind of search is explained by all of its weights."""
    index = index_of_chat(with_assistant="assistant" in kind)
    ranking = rank(index, QUESTION, VECTOR if kind == HYBRID else None)
    assert len(ranking.order) == len(index)
    for row in ranking.order.tolist():
        parts = ranking.why(row).parts
        assert parts.keys() == read_weights()[kind].keys()
        assert math.isclose(sum(parts.values()), ranking.scores[row], abs_tol=0.002)


def test_every_weight_is_in_the_table_of_the_documentation() -> None:
    """The table of docs/recall.md has a row for each part of a score, and for nothing else."""
    rows = re.findall(
        r"^\|([^|]+)\|",
        _PAGE.read_text("utf-8").partition("| part of the score |")[2].partition("\n\n")[0],
        re.MULTILINE,
    )
    listed = [row.strip(" `") for row in rows if not set(row) <= set("-: ")]
    assert set(listed) == {name for weights in read_weights().values() for name in weights}
