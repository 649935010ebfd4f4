"""What must not slip past a span guard: cut matches, overlaps, tool parts, and places besides plain text."""

import re
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agents import Mode, answer, both_modes, events_of, model_of, streamed_text
from tests.support.contexts import context, new_run
from tests.support.guards import BlockGuard, EmailGuard, PatternGuard, SsnGuard
from tests.support.profiles import examples
from tests.support.strategies import cleaned, cut, streamed

from recollect import (
    Agent,
    FilePart,
    Memory,
    Message,
    Parallel,
    PIIDetector,
    Processor,
    ReasoningPart,
    RecollectError,
    RunContext,
    Span,
    SpanGuard,
    TextDelta,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.guards.holdback import HoldBack
from recollect.guards.stream_guard import TextStream
from recollect.pipeline.processor import StreamPart
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

NUMBER = "123-45-6789"


class NoOpening(SpanGuard):
    """Redacts numbers and does not say where one may begin."""

    id = "no-opening"

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find all numbers."""
        del start, ctx
        return [Span(*match.span()) for match in re.finditer(r"\d{3}-\d{2}-\d{4}", text)]


@given(chunks=cut(f"ssn {NUMBER} end"))
@examples(0.6)
async def test_cut_match_does_not_leak_when_a_guard_has_no_open_from(chunks: list[str]) -> None:
    """Without `open_from` no text is released before the end of its message, alone and beside others."""
    assert await streamed(NoOpening(), chunks) == "ssn [REDACTED] end"
    assert await streamed(Parallel(NoOpening(), EmailGuard()), chunks) == "ssn [REDACTED] end"


def test_match_may_begin_anywhere_when_a_guard_does_not_know() -> None:
    """The base holds everything open: that is what makes it safe."""
    assert NoOpening().open_from("plain") == 0
    assert NoOpening().holds_whole_text
    assert not SsnGuard().holds_whole_text


async def test_text_is_let_out_before_a_tool_call_when_a_guard_has_no_open_from() -> None:
    """What waits is the text of one message, not the whole run, and what streamed is what is stored."""
    async with Memory() as memory:
        call = ToolCall("c", "lookup", {"word": "ping"})
        model = ScriptedModel([[f"It is {NUMBER}.", call], f"And {NUMBER}!"], chunk_size=3)
        agent = Agent(model, tools=[lookup], memory=memory, output_processors=[NoOpening()])
        events = await events_of(agent, "hi")
        stored = await memory.get_messages()
    assert [event.type for event in events] == ["text", "tool_call", "tool_result", "text", "done"]
    assert streamed_text(events) == "It is [REDACTED].\nAnd [REDACTED]!"
    assert [m.text for m in stored if m.role == "assistant"] == ["It is [REDACTED].", "And [REDACTED]!"]


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: {NUMBER}"


class Overlapping(PatternGuard):
    """Finds numbers, parts of them, and both in no order."""

    pattern = re.compile(r"\d{3}-\d{2}-\d{4}")
    opening = re.compile(r"[\d-]+\Z")
    short: ClassVar[re.Pattern[str]] = re.compile(r"\d{2}-\d{4}|\d{3}-\d{2}")

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find the parts first, with another replacement."""
        parts = [Span(*match.span(), "[PART]") for match in self.short.finditer(text)]
        return [*reversed(parts), *super().find(text, start, ctx)]


@given(chunks=cut(f"one {NUMBER} two {NUMBER}"))
@examples(0.6)
async def test_spans_are_one_when_they_overlap_or_come_in_no_order(chunks: list[str]) -> None:
    """The longest says what is written, in whole texts and in streams."""
    expected = "one [REDACTED] two [REDACTED]"
    assert await cleaned(Overlapping(), "".join(chunks)) == expected
    assert await streamed(Overlapping(), chunks) == expected
    assert await streamed(Parallel(Overlapping(), EmailGuard()), chunks) == expected


def _span(place: tuple[int, int]) -> Span:
    return Span(place[0], min(sum(place), 20), "#")


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)).map(_span), max_size=6)


@given(found=spans)
@examples(2)
async def test_nothing_inside_any_span_is_let_out(found: list[Span]) -> None:
    """Whatever a guard returns: what lies in a span is gone, and what lies in none is there, in order."""

    class Finds(SpanGuard):
        def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
            del text, start, ctx
            return found

    text = "abcdefghijklmnopqrst"
    outside = [c for place, c in enumerate(text) if not any(s.start <= place < s.end for s in found)]
    assert (await cleaned(Finds(), text)).replace("#", "") == "".join(outside)


@pytest.mark.parametrize("wrong", [None, ["x"], [Span(-1, 2)], [Span(0, 99)], [Span(3, 2)], (Span(0, 1),)])
async def test_find_is_named_when_it_returns_the_wrong_thing(wrong: list[Span]) -> None:
    """What is no list of places in the text stops the run, with the guard's name."""

    class Wrong(SpanGuard):
        def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
            del text, start, ctx
            return wrong

    with pytest.raises(RecollectError, match=r"Wrong\.find must return a list of Span values"):
        await cleaned(Wrong(), "some text")
    with pytest.raises(RecollectError, match=r"Wrong\.find must return"):
        await cleaned(Parallel(Wrong(), EmailGuard()), "some text")


@both_modes
async def test_events_show_what_is_stored_when_tools_hold_secrets(mode: Mode) -> None:
    """Calls and results are cleaned on their way out, not only in the store."""
    async with Memory() as memory:
        call = ToolCall("c", "lookup", {"word": NUMBER})
        agent = Agent(
            model_of(call, "ok", mode=mode), tools=[lookup], memory=memory, output_processors=[SsnGuard()]
        )
        events = await events_of(agent, "hi")
        stored = await memory.get_messages()
    shown = [event.tool_call or event.tool_result for event in events if event.type.startswith("tool")]
    assert shown == [
        ToolCall("c", "lookup", {"word": "[REDACTED]"}),
        ToolResult("c", "lookup", "[REDACTED]: [REDACTED]"),
    ]
    assert shown == [part for m in stored for part in m.parts if not isinstance(part, TextPart)]


class Names(PIIDetector):
    """Also finds a name, which the rules that it inherits take for ordinary text."""

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find what is inherited, and the name."""
        names = [Span(*match.span()) for match in re.finditer("Ada", text)]
        return [*super().find(text, start, ctx), *names]


async def test_subclass_is_asked_about_all_text_when_it_changes_what_is_found() -> None:
    """What the parent may pass without a look is looked at, by a change of the class and of the object."""
    chunks = ["Then Ada went", " to the harbour", " office."]
    assert await streamed(Names(), chunks) == "Then [REDACTED] went to the harbour office."
    changed = PIIDetector()
    changed.find = Names().find  # type: ignore[method-assign]
    assert await streamed(changed, chunks) == "Then [REDACTED] went to the harbour office."


class Quick(NoOpening):
    """Passes words without a look, and notes what it looks at."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.looked_at: list[str] = []

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find all numbers."""
        self.looked_at.append(text)
        return super().find(text, start, ctx)

    def open_from(self, text: str) -> int:
        """Hold back what may begin a number."""
        return len(text.rstrip("0123456789-"))

    def new_stream(self, ctx: RunContext) -> TextStream:
        """Pass text without digits."""
        return HoldBack(self, ctx, skip_to=self._skip_to)

    def _skip_to(self, text: str, start: int) -> int:
        return -1 if any(letter.isdigit() for letter in text[start:]) else len(text)


async def test_text_is_not_looked_at_when_a_guard_says_that_it_may_be_skipped() -> None:
    """A guard of one's own may spare itself the look; where it does not know, it looks."""
    chunks = ["My number ", "is ", "123-45", "-6789", " ", "indeed."]
    guard = Quick()
    assert await streamed(guard, chunks) == "My number is [REDACTED] indeed."
    assert guard.looked_at
    assert all(NUMBER[0] in text for text in guard.looked_at)


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_word_is_not_swallowed_when_it_is_only_reported_and_little_is_held_back(size: int) -> None:
    """A guard that warns lets long words out, whatever its limit is."""
    guard = PIIDetector("warn")
    guard.holdback_limit, guard.batch = 10, 2
    text = "an incomprehensibly long word"
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert await streamed(guard, chunks) == text


class PinGuard(PatternGuard):
    """Writes something that it would find again."""

    pattern = re.compile(r"\b\d{4}\b")
    opening = re.compile(r"\w+\Z")
    replacement = "[PIN 0000]"


class WholePinGuard(PinGuard):
    """The same without a place where a match may begin."""

    open_from = SpanGuard.open_from


@both_modes
@pytest.mark.parametrize("guard", [PinGuard(), WholePinGuard(), Parallel(PinGuard(), EmailGuard())])
async def test_turn_is_saved_when_a_replacement_matches_its_own_pattern(mode: Mode, guard: Processor) -> None:
    """What was cleaned is not cleaned again: in the stream and the turn, before a tool and behind it."""

    def give(pin: str) -> str:
        return f"got {pin}"

    async with Memory() as memory:
        call = ToolCall("c", "give", {"pin": "1234"})
        agent = Agent(
            model_of(["It is 1234.", call], "So 5678.", mode=mode),
            tools=[give],
            memory=memory,
            input_processors=[guard],
            output_processors=[guard],
        )
        result = await answer(agent, mode, "mine is 4321")
        stored = await memory.get_messages()
    assert result.text == "It is [PIN 0000].\nSo [PIN 0000]."
    assert [m.text for m in stored] == ["mine is [PIN 0000]", "It is [PIN 0000].", "", "So [PIN 0000]."]
    assert stored[1].tool_calls == (ToolCall("c", "give", {"pin": "[PIN 0000]"}),)
    assert stored[2].tool_results == (ToolResult("c", "give", "got [PIN 0000]"),)


async def test_match_is_replaced_when_only_a_part_of_it_looks_replaced() -> None:
    """Only the guard's exact words are left alone."""
    assert await cleaned(PinGuard(), "[PIN 0001] PIN 0000 [PIN 0000]") == (
        "[PIN [PIN 0000]] PIN [PIN 0000] [PIN 0000]"
    )


class Deletes(PatternGuard):
    """Writes nothing in the place of a number."""

    pattern = re.compile(r"\d+")
    opening = re.compile(r"\d+\Z")
    replacement = ""


async def test_match_is_gone_when_its_replacement_is_empty() -> None:
    """Nothing is a replacement too."""
    assert await cleaned(Deletes(), "a1b22c") == "abc"
    assert await streamed(Deletes(), ["a1", "b2", "2c"]) == "abc"


class OwnStream(SsnGuard):
    """Lets everything out in a stream hook of its own."""

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on."""
        del ctx
        return [part]


async def test_run_fails_when_a_stream_hook_let_out_what_the_guard_finds() -> None:
    """A guard whose own stream hook cleans nothing is not trusted with the turn."""
    async with Memory() as memory:
        agent = Agent(model_of(f"It is {NUMBER}."), output_processors=[OwnStream(), memory])
        with pytest.raises(RecollectError, match="changed text"):
            await agent.generate("hi")
        assert await memory.get_messages() == []


async def test_every_place_of_a_message_is_looked_at() -> None:
    """Keys, names and addresses of files, and reasoning are cleaned; a proof of other text is dropped."""
    message = Message(
        "user",
        [
            TextPart("hi"),
            ToolResult("c", "f", {NUMBER: 1, "123-45-0000": 2, "[REDACTED] (2)": 3, "x": {NUMBER: NUMBER}}),
            FilePart("text/plain", url=f"http://x/{NUMBER}", name=f"{NUMBER}.txt"),
            FilePart("text/plain", data="aGk="),
            ReasoningPart(f"so {NUMBER}", "proof"),
            ReasoningPart("so what", "proof"),
        ],
    )
    after = await SsnGuard().process_input([message], context(new_run()))
    assert after[0].parts == (
        TextPart("hi"),
        ToolResult(
            "c",
            "f",
            {"[REDACTED]": 1, "[REDACTED] (3)": 2, "[REDACTED] (2)": 3, "x": {"[REDACTED]": "[REDACTED]"}},
        ),
        FilePart("text/plain", url="http://x/[REDACTED]", name="[REDACTED].txt"),
        FilePart("text/plain", data="aGk="),
        ReasoningPart("so [REDACTED]"),
        ReasoningPart("so what", "proof"),
    )


class AddsFile(Processor):
    """Adds a file to the answer in the result."""

    id = "adds-file"

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Add it."""
        del ctx
        file = FilePart("text/plain", data="aGk=", name=f"{NUMBER}.txt")
        return [m.replace(content=[*m.parts, file]) if m.role == "assistant" else m for m in messages]


async def test_parts_that_do_not_stream_are_cleaned_in_the_turn() -> None:
    """A file that an earlier processor put into the answer is looked at behind it."""
    agent = Agent(model_of("ok"), output_processors=[AddsFile(), SsnGuard()])
    result = await agent.generate("hi")
    assert result.messages[-1].parts == (
        TextPart("ok"),
        FilePart("text/plain", data="aGk=", name="[REDACTED].txt"),
    )


class Blocks(BlockGuard):
    """Has a replacement of its own."""

    replacement = "[BLOCK]"


async def test_replacement_is_the_guards_own_when_a_match_is_too_long() -> None:
    """At the limit the guard's words are written, whether the match is found already or not."""
    assert await streamed(Blocks(limit=8), ["! BEGIN1", "7" * 20, "END !"]) == "! [BLOCK] !"
    both = Parallel(EmailGuard(limit=8), Blocks(limit=8))
    assert await streamed(both, ["! BEGIN1", " 7" * 20, "END !"]) == "! [BLOCK] !"
    assert await streamed(both, ["! ", "a" * 20, "@b.co !"]) == "! ***@***.*** !"


class Growing(PatternGuard):
    """Finds keys that may always go on, and says what they are only in its spans."""

    pattern = re.compile(r"sk-\d+")
    opening = re.compile(r"sk-\d*\Z")

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find all keys."""
        del start, ctx
        return [Span(*match.span(), "[KEY]") for match in self.pattern.finditer(text)]


async def test_replacement_is_that_of_the_span_when_the_open_match_was_found() -> None:
    """A guard that only says in its spans what to write is asked for them at the limit too."""
    assert await streamed(Growing(limit=8), ["! sk-", "7" * 20, "7 !"]) == "! [KEY] !"


async def test_part_is_the_same_object_when_a_guard_changes_nothing() -> None:
    """Text without anything to hold back goes on as it came, which is the short way through the chain."""
    part = TextDelta("plain, ")
    assert (await SsnGuard().process_output_stream(part, context(new_run(), "stream")))[0] is part
