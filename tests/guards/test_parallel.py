"""`Parallel`: guards side by side act like a sequence, or say why they cannot."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from tests.support.contexts import context, new_run
from tests.support.guards import (
    BlockGuard,
    EmailGuard,
    KeyGuard,
    KeywordBlocker,
    Moderation,
    SsnGuard,
    WordLimit,
)
from tests.support.profiles import examples
from tests.support.strategies import chunked_texts, cleaned, streamed

from recollect import (
    InvalidArgumentError,
    Message,
    MessagePersistenceProcessor,
    Parallel,
    Processor,
    RecollectError,
    RunContext,
    Span,
    SpanGuard,
    TextDelta,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.pipeline.processor import StreamPart

pytestmark = pytest.mark.anyio


def conflicts(text: str) -> bool:
    """Whether numbers and addresses in a text overlap."""
    ctx = context(new_run())
    spans = sorted(SsnGuard().find(text, 0, ctx) + EmailGuard().find(text, 0, ctx))
    return any(right.start < left.end for left, right in pairwise(spans))


@given(case=chunked_texts().filter(lambda case: not conflicts(case[0])))
@examples(3)
async def test_same_as_a_sequence_when_spans_are_disjoint(case: tuple[str, list[str]]) -> None:
    """Two guards at once give what one after the other gives, whole and in any chunks."""
    text, chunks = case
    both = Parallel(SsnGuard(), EmailGuard())
    expected = await cleaned(EmailGuard(), await cleaned(SsnGuard(), text))
    assert await cleaned(both, text) == expected
    assert await streamed(both, chunks) == expected


@given(case=chunked_texts(middle="123-45-6789@b.co").filter(lambda case: conflicts(case[0])))
@examples(3)
async def test_conflict_is_an_error_when_spans_overlap(case: tuple[str, list[str]]) -> None:
    """Two guards that want the same text differently are told to stand one after the other."""
    text, chunks = case
    both = Parallel(SsnGuard(), EmailGuard())
    with pytest.raises(RecollectError, match="one after the other"):
        await cleaned(both, text)
    with pytest.raises(RecollectError, match="one after the other"):
        await streamed(both, chunks)


async def test_equal_spans_of_two_guards_are_one_edit() -> None:
    """Guards that agree do not conflict."""
    both = Parallel(SsnGuard(name="a"), SsnGuard(name="b"))
    assert await cleaned(both, "it is 123-45-6789.") == "it is [REDACTED]."


async def test_open_match_is_swallowed_as_by_the_guard_that_has_it() -> None:
    """A block that never ends is written over by its own guard, whoever stands beside it."""
    chunks = ["so: BEGIN1", *["secret " * 9] * 12]
    alone = await streamed(BlockGuard(limit=40), chunks)
    assert await streamed(Parallel(SsnGuard(), BlockGuard(limit=40)), chunks) == alone
    assert "secret" not in alone


def test_holdback_is_the_longest_of_the_members() -> None:
    """Text waits for as long as the slowest guard needs; guards that find no spans need none."""
    assert Parallel(SsnGuard(limit=7), KeyGuard(limit=90), Moderation()).holdback_limit == 90
    assert Parallel(Moderation()).holdback_limit == 0


@pytest.mark.parametrize("guard", [WordLimit(3), MessagePersistenceProcessor("sqlite://")])
def test_memory_and_editors_are_refused(guard: Processor) -> None:
    """What is neither a span guard nor promises to block only cannot run beside others."""
    with pytest.raises(InvalidArgumentError, match=f"{type(guard).__name__} is neither a SpanGuard"):
        Parallel(SsnGuard(), guard)


class Barrier(Processor):
    """Blocks when a partner has begun, or waits for one for ever; says in a list how it ended."""

    blocks_only = True

    def __init__(self, name: str, log: list[str], *, trips: bool, begun: asyncio.Event) -> None:
        """Take a name, a log, what to do, and the event that ties the partners together."""
        self.id = name
        self._log = log
        self._trips = trips
        self._begun = begun

    async def _act(self, ctx: RunContext) -> None:
        if self._trips:
            await self._begun.wait()
            ctx.abort(self.id)
        try:
            self._begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._log.append(f"{self.id} cancelled")
            raise

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Act."""
        await self._act(ctx)
        return messages

    async def process_tool_call(self, call: ToolCall, ctx: RunContext) -> ToolCall:
        """Act."""
        await self._act(ctx)
        return call

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:
        """Act."""
        await self._act(ctx)
        return result

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Act."""
        await self._act(ctx)
        return [part]

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Act."""
        await self._act(ctx)
        return messages


HOOKS: dict[str, object] = {
    "process_input": [Message("user", "x")],
    "process_tool_call": ToolCall("c", "f"),
    "process_tool_result": ToolResult("c", "f"),
    "process_output_stream": TextDelta("x"),
    "process_output_result": [Message("user", "x")],
}


@pytest.mark.parametrize("hook", HOOKS)
async def test_first_trip_wins_and_the_others_are_cancelled(hook: str) -> None:
    """In every hook guards run at once; a trip ends the others, and no task stays behind."""
    log: list[str] = []
    begun = asyncio.Event()
    slow = Barrier("slow", log, trips=False, begun=begun)
    fast = Barrier("fast", log, trips=True, begun=begun)
    before = asyncio.all_tasks()
    with pytest.raises(TripWire, match="fast"):
        await getattr(Parallel(slow, SsnGuard(), fast), hook)(HOOKS[hook], context(new_run()))
    assert log == ["slow cancelled"]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("hook", HOOKS)
async def test_everything_passes_when_no_guard_minds(hook: str) -> None:
    """Guards that do nothing in a hook let everything through."""
    value = HOOKS[hook]
    after = await getattr(Parallel(KeywordBlocker(), Moderation(), SsnGuard()), hook)(
        value, context(new_run())
    )
    assert after in (value, [value])


class Failing(Processor):
    """Fails on the prompt."""

    blocks_only = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Fail."""
        del messages, ctx
        raise OSError("guard is down")


async def test_error_reaches_the_caller_as_it_is_when_a_guard_fails() -> None:
    """An error comes out by itself, not inside a group."""
    with pytest.raises(OSError, match="guard is down"):
        await Parallel(Failing(), SsnGuard()).process_input([Message("user", "x")], context(new_run()))


class LateBlocker(Processor):
    """Blocks at the end of the stream, by what it has counted in its own state."""

    blocks_only = True

    def __init__(self, name: str, longest: int) -> None:
        """Take an id and how many characters are allowed."""
        self.id = name
        self._longest = longest

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Count."""
        if isinstance(part, TextDelta):
            ctx.state["size"] = ctx.state.get("size", 0) + len(part.text)
        return [part]

    async def finish_output_stream(self, ctx: RunContext) -> list[StreamPart]:
        """Judge."""
        if ctx.state.get("size", 0) > self._longest:
            ctx.abort(f"{self.id}: too long")
        return []


async def test_guard_that_judges_at_the_end_of_the_stream_is_asked() -> None:
    """A member's last hook of the stream counts too."""
    with pytest.raises(TripWire, match="too long"):
        await streamed(Parallel(LateBlocker("late", 5), SsnGuard()), ["abcd", "efgh"])


async def test_members_have_states_of_their_own() -> None:
    """Two guards that use the same name in their state do not count each other's text."""
    guards = Parallel(LateBlocker("one", 10), LateBlocker("two", 10))
    ctx = context(new_run(), "stream")
    await guards.process_output_stream(TextDelta("abcdefg"), ctx)
    sizes = [state["size"] for state in _states(ctx) if "size" in state]
    assert sizes == [7, 7]


async def test_trip_names_the_guard_that_tripped() -> None:
    """Whoever reads a trip learns which of the guards it was."""
    guards = Parallel(SsnGuard(), KeywordBlocker("bad", name="words"))
    with pytest.raises(TripWire) as caught:
        await guards.process_input([Message("user", "bad")], context(new_run()))
    assert caught.value.processor_id is not None
    assert "words" in caught.value.processor_id


def _states(ctx: RunContext) -> list[dict[str, object]]:
    return list(ctx._run.states.values())  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - where states are


def test_text_waits_only_when_a_guard_needs_the_whole_answer() -> None:
    """A guard with nothing but a result hook makes all text wait; span guards do not."""
    assert Parallel(Moderation(), SsnGuard()).needs_whole_text
    assert not Parallel(KeywordBlocker(), SsnGuard()).needs_whole_text


class Refuses(SpanGuard):
    """Trips on whatever it is shown."""

    id = "refuses"

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:  # noqa: ARG002 - it looks at nothing
        """Refuse the text without a name of its own on the trip."""
        raise TripWire("refused")


class OwnHook(SsnGuard):
    """Does something of its own that nobody would call."""

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002 - the same
        """Drop everything."""
        return []


async def test_trip_names_the_member_when_a_span_guard_refuses() -> None:
    """The caller learns which of the guards it was."""
    with pytest.raises(TripWire) as caught:
        await cleaned(Parallel(SsnGuard(), Refuses()), "text")
    assert caught.value.processor_id == "refuses"


def test_span_guard_is_refused_when_it_has_hooks_of_its_own() -> None:
    """A hook that would never run is an error at construction, with the way out."""
    with pytest.raises(InvalidArgumentError, match=r"OwnHook has a process_input of its own.*by itself"):
        Parallel(OwnHook(), EmailGuard())
