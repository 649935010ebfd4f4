"""Span guards and the hold-back: the same text for every chunking, and never a part of a secret."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.contexts import context, new_run
from tests.support.guards import BlockGuard, EmailGuard, KeyGuard, PatternGuard, SsnGuard
from tests.support.profiles import examples
from tests.support.strategies import around, chunked_texts, cleaned, streamed

from recollect import Message, RunContext, Span, SpanGuard, TextDelta, TextPart, ToolCall, ToolResult
from recollect.guards.holdback import REDACTED, HoldBack, apply_spans
from recollect.messages import FilePart

pytestmark = pytest.mark.anyio

GUARDS = (SsnGuard, EmailGuard, KeyGuard, BlockGuard)
each_guard = pytest.mark.parametrize("kind", GUARDS)


@each_guard
@given(case=chunked_texts())
@examples(3)
async def test_stream_gives_the_same_text_for_every_chunking(
    kind: type[PatternGuard], case: tuple[str, list[str]]
) -> None:
    """However a text is cut, what is released is what the whole text would have become."""
    text, chunks = case
    guard = kind()
    assert await streamed(guard, chunks) == await cleaned(guard, text)


limits = st.integers(4, 16)
longer = st.integers(4, 60)
keys = longer.map(lambda size: "sk-" + "7" * size)
blocks = longer.map(lambda size: "BEGIN1" + "7" * size + "END")
numbers = st.just("777-77-7777")
addresses = longer.map(lambda size: "7" * size + "@7.77")


async def assert_nothing_leaks(guard: SpanGuard, chunks: list[str]) -> None:
    """Stream a secret of sevens, and look for them; the text around it must be there."""
    out = await streamed(guard, chunks)
    assert "7" not in out
    assert out.startswith("! ")
    assert out.endswith(" !")


@given(limit=limits, chunks=around(keys))
@examples(3)
async def test_no_part_of_a_key_is_let_out_when_it_is_longer_than_the_limit(
    limit: int, chunks: list[str]
) -> None:
    """At the limit an open match is replaced and swallowed to its end; the text around it stays."""
    await assert_nothing_leaks(KeyGuard(limit=limit), chunks)


@given(limit=limits, chunks=around(blocks))
@examples(3)
async def test_no_part_of_a_block_is_let_out_when_it_is_longer_than_the_limit(
    limit: int, chunks: list[str]
) -> None:
    """The same for what has a mark at its beginning and at its end."""
    await assert_nothing_leaks(BlockGuard(limit=limit), chunks)


@given(limit=limits, chunks=around(numbers))
@examples(3)
async def test_no_part_of_a_number_is_let_out_when_it_is_longer_than_the_limit(
    limit: int, chunks: list[str]
) -> None:
    """The same for what has a fixed length, also if the limit is too short for it."""
    await assert_nothing_leaks(SsnGuard(limit=limit), chunks)


@given(limit=limits, chunks=around(addresses))
@examples(3)
async def test_no_part_of_an_address_is_let_out_when_it_is_longer_than_the_limit(
    limit: int, chunks: list[str]
) -> None:
    """The same for what is recognised by something in its middle."""
    await assert_nothing_leaks(EmailGuard(limit=limit), chunks)


@pytest.mark.parametrize("size", [1, 7, 100, 511, 512, 513])
async def test_no_part_of_a_key_is_let_out_when_it_is_longer_than_the_default_limit(size: int) -> None:
    """A key of thousands of digits is gone, whatever the size of the chunks."""
    text = f"! sk-{'7' * 3000} !"
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert await streamed(KeyGuard(), chunks) == "! [REDACTED] !"


class Open(SpanGuard):
    """Finds nothing, and says where something may begin."""

    def __init__(self, open_from: Callable[[str], int], limit: int) -> None:
        """Take what says so, and how much may be held back."""
        self._place = open_from
        self.holdback_limit = limit

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find nothing."""
        del text, start, ctx
        return []

    def open_from(self, text: str) -> int:
        """Say where something may begin."""
        return self._place(text)


@given(limit=st.integers(1, 12), chunks=st.lists(st.text(min_size=1, max_size=20), max_size=8))
@examples(2)
def test_what_is_held_back_is_bounded_when_everything_may_become_a_match(
    limit: int, chunks: list[str]
) -> None:
    """After any chunks no more than the limit is left to release, or what is written for all of it."""
    held = HoldBack(Open(lambda _: 0, limit), context(new_run()))
    for chunk in chunks:
        held.feed(chunk)
    rest = held.finish()
    assert rest == REDACTED if len("".join(chunks)) > limit else rest == "".join(chunks)


async def test_rest_is_let_out_when_the_stream_ends_inside_a_match_that_was_given_up() -> None:
    """Finishing while a long match is being swallowed writes its replacement, and the next text passes."""
    guard = EmailGuard(limit=4)
    assert await streamed(guard, ["ab", "cdef", "ghij"]) == "***@***.***"
    ctx = context(new_run(), "stream")
    for chunk in ("ab", "cdef", "ghij"):
        await guard.process_output_stream(TextDelta(chunk), ctx)
    assert await guard.finish_output_stream(ctx) == [TextDelta("***@***.***")]
    assert await guard.process_output_stream(TextDelta("next "), ctx) == [TextDelta("next ")]


async def test_tool_parts_of_a_stream_are_cleaned() -> None:
    """What is shown of a call and of a result holds no secret; what holds none is the same object."""
    ctx = context(new_run(), "stream")
    call, result = ToolCall("c", "f", {"x": "123-45-6789"}), ToolResult("c", "f", ["123-45-6789"])
    assert await SsnGuard().process_output_stream(call, ctx) == [ToolCall("c", "f", {"x": "[REDACTED]"})]
    assert await SsnGuard().process_output_stream(result, ctx) == [ToolResult("c", "f", ["[REDACTED]"])]
    plain = ToolResult("c", "f", [1, "x"])
    assert (await SsnGuard().process_output_stream(plain, ctx))[0] is plain


async def test_every_text_of_a_message_is_cleaned_when_it_has_parts() -> None:
    """Texts, arguments and results are cleaned at any depth; what is no text stays."""
    number, gone = "123-45-6789", "[REDACTED]"
    file = FilePart("image/png", url="http://example.com/a.png")
    message = Message(
        "user",
        [
            TextPart(f"a {number}"),
            ToolCall("c", "f", {"list": [number, 1, None], "deep": {"x": number}}),
            ToolResult("c", "f", (number, 2.5)),
            file,
        ],
    )
    after = await SsnGuard().process_input([message], context(new_run()))
    assert after[0].parts == (
        TextPart(f"a {gone}"),
        ToolCall("c", "f", {"list": [gone, 1, None], "deep": {"x": gone}}),
        ToolResult("c", "f", [gone, 2.5]),
        file,
    )


async def test_messages_are_the_same_objects_when_nothing_is_found() -> None:
    """A guard that finds nothing changes nothing, parts or not, and leaves memory alone."""
    guard = SsnGuard()
    messages = [
        Message("user", "plain"),
        Message("user", ""),
        Message("user", [TextPart("a"), TextPart("b")]),
        Message("user", "123-45-6789", origin="memory"),
    ]
    after = await guard.process_input(messages, context(new_run()))
    assert all(new is old for new, old in zip(after, messages, strict=True))


async def test_tool_calls_and_results_are_cleaned() -> None:
    """The copies of a call and of a result that are shown and kept hold no secret."""
    guard, ctx = SsnGuard(), context(new_run(), "tool_call")
    call = await guard.process_tool_call(ToolCall("c", "f", {"x": "123-45-6789"}), ctx)
    result = await guard.process_tool_result(ToolResult("c", "f", "123-45-6789"), ctx)
    assert (call.arguments, result.content) == ({"x": "[REDACTED]"}, "[REDACTED]")


class LabelGuard(PatternGuard):
    """Redacts what stands after a label, which stays."""

    pattern = re.compile(r"(?<=key: )\w+")
    opening = re.compile(r"\w+\Z")


class WithLabelGuard(LabelGuard):
    """Redacts the label too, where it can."""

    pattern = re.compile(r"my Key: \w+")


@pytest.mark.parametrize("chunks", [["key: abc."], ["key: ", "abc."], ["key", ": ", "ab", "c."]])
async def test_guard_may_look_at_what_was_let_out_before(chunks: list[str]) -> None:
    """A match that is told by the text before it is found though that text is gone already."""
    assert await streamed(LabelGuard(), chunks) == "key: [REDACTED]."


async def test_guard_may_look_at_the_name_of_a_tools_value() -> None:
    """A name stands before its value as words, as a label does in text; it is not changed itself."""
    ctx = context(new_run(), "tool_call")
    call = ToolCall("c", "f", {"lock": "abc", "key": 12, "my_key": "abc"})
    after = await LabelGuard().process_tool_call(call, ctx)
    assert after.arguments == {"lock": "abc", "key": "[REDACTED]", "my_key": "[REDACTED]"}
    after = await WithLabelGuard().process_tool_call(ToolCall("c", "f", {"myKey": "abc"}), ctx)
    assert after.arguments == {"myKey": "[REDACTED]"}


async def test_span_guard_must_say_what_it_finds() -> None:
    """The base finds nothing by itself: forgetting `find` is an error, not a hole."""
    with pytest.raises(NotImplementedError):
        await SpanGuard().process_input([Message("user", "x")], context(new_run()))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6), st.text(max_size=60))
@examples(2)
def test_spans_are_written_over_when_they_do_not_overlap(gaps: list[tuple[int, int]], text: str) -> None:
    """What is outside the spans stays, in order."""
    spans: list[Span] = []
    place = 0
    outside: list[str] = []
    for gap, size in gaps:
        start, end = min(place + gap, len(text)), min(place + gap + size, len(text))
        outside.append(text[place:start])
        spans.append(Span(start, end, "#"))
        place = end
    outside.append(text[place:])
    assert apply_spans(text, spans) == "#".join(outside)


def test_what_was_only_open_is_swallowed_until_it_is_not() -> None:
    """A match that was given up and is never found ends where it is no longer open, in any chunk."""
    text = f"so <{'x' * 30}> and so on"
    for size in (1, 4, 9, 40, 100):
        guard = Open(lambda text: len(text) if ">" in text else text.find("<"), limit=12)
        held = HoldBack(guard, context(new_run()))
        out = [held.feed(text[start : start + size]) for start in range(0, len(text), size)]
        assert "".join([*out, held.finish()]) == (
            "so [REDACTED]> and so on" if size < len(text) - 10 else text
        )
    held = HoldBack(Open(lambda text: text.find("<"), limit=12), context(new_run()))
    assert held.feed(text) + held.finish() == "so [REDACTED]"


async def test_second_long_match_is_replaced_when_the_stream_ends_with_it() -> None:
    """What stands after a match that was given up may be one that is too long as well."""
    chunks = ["sk-" + "7" * 400, " sk-" + "7" * 40]
    assert await streamed(KeyGuard(limit=8), chunks) == "[REDACTED] [REDACTED]"
