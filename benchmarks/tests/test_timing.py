"""The arithmetic of the benchmarks: medians, ratios, turns of contestants."""

import pytest

from benchmarks.report import Goal, Part, ratio_goal, unmeasured
from benchmarks.texts import Talk
from benchmarks.timing import Lap, Timings, percentile, race, ratio

pytestmark = pytest.mark.anyio


async def test_contestants_take_turns_when_they_race() -> None:
    """Each goes first as often as the other, and the laps before the first round do not count."""
    order: list[str] = []

    def contestant(name: str, second: float) -> Lap:
        async def lap(count: int) -> list[float]:
            order.append(name)
            return [second] * count

        return lap

    shares: list[float] = []
    found = await race(
        {"ours": contestant("ours", 2.0), "bare": contestant("bare", 1.0)},
        rounds=2,
        tries=3,
        tick=shares.append,
    )
    assert order == ["ours", "bare", "bare", "ours"] * 2
    assert found["ours"].rounds == [[2.0] * 3] * 2
    assert found["bare"].rounds == [[1.0] * 3] * 2
    assert shares[-1] == 1


def test_a_ratio_compares_medians_and_shows_the_spread_of_rounds() -> None:
    """One slow try changes neither, one slow round shows in the spread."""
    ours = Timings([[2.0, 2.0, 90.0], [2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    bare = Timings([[1.0, 1.0, 1.0], [1.0, 50.0, 1.0], [1.0, 1.0, 1.0]])
    found = ratio(ours, bare)
    assert found.value == 2.0
    assert (found.low, found.high) == (2.0, 8.0)
    assert found.spread == "2.00 to 8.00"
    goal = ratio_goal("append", 1.5, found, ours, bare)
    assert (goal.goal, goal.measured, goal.met) == ("≤ 1.5 times", 2.0, False)
    assert ratio_goal("append", 2.0, found, ours, bare).met is True


def test_a_goal_is_not_met_when_it_could_not_be_measured() -> None:
    """What is missing is never counted as reached."""
    goal = unmeasured("append", "≤ 1.5 times")
    assert goal.as_json() == {"name": "append", "goal": "≤ 1.5 times", "measured": None, "met": False}


def test_parts_are_joined_in_order() -> None:
    """Goals, figures and notes of all parts end in one report."""
    whole = Part([Goal("a", "≤ 1 times", 1.0, met=True)], {"a": 1}, ["one"])
    whole.add(Part([Goal("b", "≤ 1 times", 2.0, met=False)], {"b": 2}, ["two"]))
    assert [goal.name for goal in whole.goals] == ["a", "b"]
    assert (whole.figures, whole.notes) == ({"a": 1, "b": 2}, ["one", "two"])


def test_a_percentile_is_one_of_the_values() -> None:
    """The highest share gives the last value."""
    values = [float(number) for number in range(1, 11)]
    assert percentile(values, 0.5) == 6.0
    assert percentile(values, 1.0) == 10.0


def test_made_up_talk_is_the_same_in_every_run() -> None:
    """Two runs measure the same texts, of a realistic length."""
    texts = Talk().texts(200)
    assert texts == Talk().texts(200)
    assert 150 < sum(map(len, texts)) / len(texts) < 250
    assert len(set(texts)) == 200
