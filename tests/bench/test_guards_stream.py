"""Measuring guards on a stream gives both figures of the goal, and what is held back is bounded."""

import pytest
from tests.guards.leaks.prompts import find_leaks

from recollect.bench import guards_stream
from recollect.guards.leaks.index import index_of_instructions

pytestmark = pytest.mark.anyio


async def test_figures_of_the_goal_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed and the longest text held back are there, beside the speed by length of chunk."""
    monkeypatch.setattr(guards_stream, "_CHARACTERS", 20_000)
    shown: list[str] = []
    figures = await guards_stream.measure_stream(lambda what, _: shown.append(what))
    assert figures["mb_per_second"] > 0
    assert 0 < figures["longest_held_back"] <= 256
    assert figures["mb_per_second"] in figures["mb_per_second_by_chunk"].values()
    assert figures["guards"][-2:] == ["SystemPromptScrubber", "TokenLimiterProcessor"]
    assert len(shown) == 5


def test_texts_that_are_measured_hold_no_leak() -> None:
    """What is redacted would be taken for held back."""
    index = index_of_instructions(guards_stream.INSTRUCTIONS)
    for text in guards_stream.tricky_texts():
        assert find_leaks(text, index) == []
