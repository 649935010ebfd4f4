"""The base of guards on streams: a stream for each run, and nothing cleaned twice."""

import pytest
from tests.support.agents import Mode, answer, both_modes, events_of, model_of, streamed_text
from tests.support.contexts import context, new_run

from recollect import Agent, Memory, Message, RunContext, TextDelta
from recollect.guards.stream_guard import StreamGuard

pytestmark = pytest.mark.anyio


class Shout:
    """Writes text in capitals, each word once it has ended."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._word = ""

    def feed(self, text: str) -> str:
        """Hold the last word back."""
        words, blank, self._word = (self._word + text).rpartition(" ")
        return (words + blank).upper()

    def finish(self) -> str:
        """Return the last word."""
        word, self._word = self._word, ""
        return word.upper()


class Shouter(StreamGuard):
    """Shouts an answer, and notes which messages had streamed."""

    id = "shouter"

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seen: list[tuple[str, bool]] = []

    def new_stream(self, ctx: RunContext) -> Shout:
        """Make a stream."""
        del ctx
        return Shout()

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:
        """Leave messages as they are."""
        del ctx
        self.seen.append((message.role, has_streamed))
        return message


@both_modes
async def test_answer_is_changed_as_it_streams_and_the_turn_says_what_has(mode: Mode) -> None:
    """Two methods are enough for a guard of one's own; only the answer has streamed."""
    guard = Shouter()
    async with Memory() as memory:
        agent = Agent(model_of("one two three", mode=mode), memory=memory, output_processors=[guard])
        result = await answer(agent, mode, "go")
        stored = await memory.get_messages()
    assert result.text == stored[-1].text == "ONE TWO THREE"
    assert guard.seen == [("user", False), ("assistant", True)]


async def test_each_run_has_a_stream_of_its_own() -> None:
    """Runs at the same time do not see each other's text, and nothing has streamed before the first part."""
    guard, one, two = Shouter(), context(new_run(), "stream"), context(new_run(), "stream")
    assert await guard.process_output_stream(TextDelta("a b"), one) == [TextDelta("A ")]
    assert await guard.finish_output_stream(two) == []
    await guard.process_output_result([Message("assistant", "x")], two)
    assert guard.seen == [("assistant", False)]
    assert await guard.process_output_stream(TextDelta(""), one) == [TextDelta("")]
    assert await guard.finish_output_stream(one) == [TextDelta("B")]
    assert streamed_text(await events_of(Agent(model_of("c"), output_processors=[guard]), "go")) == "C"


async def test_guard_must_say_what_it_does() -> None:
    """Forgetting a method is an error, not a hole."""
    ctx = context(new_run(), "stream")
    with pytest.raises(NotImplementedError):
        await StreamGuard().process_output_stream(TextDelta("x"), ctx)
    with pytest.raises(NotImplementedError):
        await StreamGuard().process_output_result([Message("assistant", "x")], ctx)
