"""Laws of the chain: a processor that does nothing changes nothing, and what streamed is what is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agents import CALL, events_of, lookup, streamed_text
from tests.support.guards import (
    BlockGuard,
    Bystander,
    EmailGuard,
    Hoarder,
    KeyGuard,
    KeywordBlocker,
    SsnGuard,
    Summarizer,
    Waiter,
    WordLimit,
)
from tests.support.profiles import examples
from tests.support.strategies import cut, spoken_texts

from recollect import Agent, Memory, Message, Parallel, Processor, RunContext
from recollect.pipeline.processor import StreamPart
from recollect.testing import Reply, ScriptedModel

pytestmark = pytest.mark.anyio


class Flusher(Processor):
    """Has a stream hook and a hook for its end, and holds nothing."""

    id = "flusher"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on."""
        del ctx
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Hold nothing back."""
        del ctx
        return []


IDENTITIES: tuple[Callable[[], Processor], ...] = (Bystander, Waiter, Hoarder, Flusher, Processor)
GUARDS: tuple[Callable[[], Processor], ...] = (
    SsnGuard,
    EmailGuard,
    KeyGuard,
    BlockGuard,
    lambda: WordLimit(4, stop=False),
    lambda: Summarizer(20),
    lambda: Parallel(SsnGuard(name="p1"), KeywordBlocker("never said")),
)

guard_lists = st.lists(st.sampled_from(GUARDS), max_size=3, unique=True)


@st.composite
def scripts(draw: st.DrawFn) -> list[Reply]:
    """Return what a model says in one run: maybe a tool round, then an answer, cut anywhere."""
    answer: Reply = draw(cut(draw(spoken_texts)))
    if draw(st.booleans()):
        return [[*draw(cut(draw(spoken_texts))), CALL], answer]
    return [answer]


class Row(NamedTuple):
    """What is compared of a message: all but its time."""

    id: str
    role: str
    text: str
    body: object
    metadata: dict[str, object]


@dataclass(frozen=True)
class Outcome:
    """What a run shows and keeps."""

    text: str
    streamed: str
    kinds: Sequence[str]
    turn: Sequence[Row]
    stored: Sequence[Row]


async def outcome(
    replies: Sequence[Reply], inputs: Sequence[Processor], outputs: Sequence[Processor]
) -> Outcome:
    """Stream one run, with memory after the guards, and return what came of it."""
    async with Memory() as memory:
        agent = Agent(
            ScriptedModel(replies),
            tools=[lookup],
            input_processors=[*inputs, memory],
            output_processors=[*outputs, memory],
        )
        events = await events_of(agent, "mail a@b.co, number 123-45-6789", run_id="r")
        stored = await memory.get_messages()
    result = events[-1].result
    assert result is not None
    kinds = [event.type for event in events if event.type != "text"]
    return Outcome(result.text, streamed_text(events), kinds, _rows(result.messages), _rows(stored))


def _rows(messages: Sequence[Message]) -> list[Row]:
    return [Row(m.id, m.role, m.text, m.body, dict(m.metadata)) for m in messages]


@given(place=st.integers(0, 3), replies=scripts(), guards=guard_lists, identity=st.sampled_from(IDENTITIES))
@examples(0.8)
async def test_identity_changes_nothing_when_put_anywhere(
    place: int,
    replies: list[Reply],
    guards: list[Callable[[], Processor]],
    identity: Callable[[], Processor],
) -> None:
    """Text, turn and rows are the same with a processor that does nothing in any place of either side."""
    plain = await outcome(replies, [], [make() for make in guards])
    outputs = [make() for make in guards]
    outputs.insert(place, identity())
    inputs = [identity()] if identity in (Bystander, Processor) else []
    assert await outcome(replies, inputs, outputs) == plain


@given(replies=scripts(), guards=guard_lists)
@examples(0.8)
async def test_what_streamed_is_what_is_stored(
    replies: list[Reply], guards: list[Callable[[], Processor]]
) -> None:
    """Released text, the result and the rows say the same, for random chunkings."""
    seen = await outcome(replies, [], [make() for make in guards])
    assert seen.turn == seen.stored
    texts = [row.text for row in seen.stored if row.role == "assistant"]
    assert "\n".join(text for text in texts if text) == seen.text == seen.streamed


@given(chunks=spoken_texts.flatmap(cut), guards=guard_lists)
@examples(0.8)
async def test_chunking_does_not_matter_when_guards_stand_in_a_row(
    chunks: list[str], guards: list[Callable[[], Processor]]
) -> None:
    """The same answer in one chunk or in many is shown and kept alike."""
    whole = await outcome(["".join(chunks)], [], [make() for make in guards])
    assert await outcome([chunks], [], [make() for make in guards]) == whole


apart = st.lists(st.sampled_from(["123-45-6789", "a@b.co", "sk-1234", "x"]), min_size=1, max_size=6)


@given(chunks=apart.map("; ".join).flatmap(cut), makers=st.permutations([SsnGuard, EmailGuard, KeyGuard]))
@examples(0.8)
async def test_order_of_guards_does_not_matter_when_spans_are_far_apart(
    chunks: list[str], makers: list[Callable[[], Processor]]
) -> None:
    """Guards of different things may stand in any order."""
    expected = await outcome([chunks], [], [SsnGuard(), EmailGuard(), KeyGuard()])
    assert await outcome([chunks], [], [make() for make in makers]) == expected


@given(chunks=spoken_texts.flatmap(cut), limit=st.integers(4, 16))
@examples(0.8)
async def test_run_ends_well_when_the_holdback_is_short(chunks: list[str], limit: int) -> None:
    """A match that was given up in the stream is no reason for the finished turn to be refused."""
    seen = await outcome([chunks], [], [KeyGuard(limit=limit), BlockGuard(limit=limit)])
    assert seen.turn == seen.stored
