"""The order of what a model is shown."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from recollect import Message
from recollect.pipeline.prompt_order import ContextBuilder, insert

IN_ORDER = [
    Message("system", "snapshot", id="r:snapshot", origin="system"),
    Message("system", "skill one", id="r:skill:one", origin="system", kind="skill"),
    Message("system", "skill two", id="r:skill:two", origin="system", kind="skill"),
    Message("system", "recalled", id="r:recalled", origin="memory"),
    Message("user", "earlier", id="a", origin="memory"),
    Message("assistant", "answered", id="b", origin="memory"),
    Message("system", "of the caller", id="c", origin="input"),
    Message("user", "now", id="d", origin="input"),
]
RANKS = {"r:snapshot": 0, "r:skill:one": 1, "r:skill:two": 1, "r:recalled": 2, "a": 3, "b": 3, "c": 4, "d": 4}


def test_messages_stand_in_the_order_of_the_document() -> None:
    """Snapshot, skills, recalled memory, history, this turn."""
    mixed = [IN_ORDER[place] for place in (6, 3, 1, 4, 0, 5, 2, 7)]
    assert ContextBuilder.build_messages(mixed) == IN_ORDER


@given(st.permutations(IN_ORDER))
def test_ordering_loses_nothing_and_keeps_the_order_within_a_kind(messages: list[Message]) -> None:
    """It is a stable sort, and doing it twice changes nothing."""
    ordered = ContextBuilder.build_messages(messages)
    assert sorted(m.id for m in ordered) == sorted(m.id for m in messages)
    assert [RANKS[m.id] for m in ordered] == sorted(RANKS.values())
    for rank in set(RANKS.values()):
        kind = [m.id for m in messages if RANKS[m.id] == rank]
        assert [m.id for m in ordered if RANKS[m.id] == rank] == kind
    assert ContextBuilder.build_messages(ordered) == ordered


def test_memory_brings_its_messages_in_one_order_whatever_runs_first() -> None:
    """Working memory, user memory, other threads, the caller's rules, history, recalled, this turn."""
    caller = [
        Message("system", "rules", id="rules"),
        Message("user", "sent again", id="old"),
        Message("assistant", "yes", id="answer"),
        Message("user", "now", id="now"),
    ]
    brought = [
        Message("system", "wm", id="wm", origin="memory", kind="working_memory"),
        Message("system", "um", id="um", origin="memory", kind="user_memory"),
        Message("system", "ot", id="ot", origin="memory", kind="other_threads"),
        Message("user", "earlier", id="history", origin="memory"),
        Message("system", "found", id="found", origin="memory", kind="recalled"),
    ]
    expected = ["wm", "um", "ot", "rules", "history", "old", "answer", "found", "now"]
    for order in permutations(brought):
        prompt = caller
        for message in order:
            prompt = insert(prompt, [message])
        assert [message.id for message in prompt] == expected
    assert insert(caller, []) == caller
