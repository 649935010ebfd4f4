"""A turn through the pipeline without a model: what whoever has one calls, in order."""

from collections.abc import Sequence

import pytest
from tests.support.agents import texts
from tests.support.contexts import new_run
from tests.support.guards import EmailGuard, SsnGuard, Summarizer

from recollect import Memory, Message, Processor, RunContext, TextDelta, ToolCall, ToolResult
from recollect.errors import StorageUnavailableError
from recollect.messages import ABORTED, FilePart, TextPart
from recollect.pipeline.assembly import expand_providers
from recollect.pipeline.processor import StreamPart
from recollect.pipeline.recovery import Delivery
from recollect.pipeline.run import PipelineRun
from recollect.pipeline.turn import split_stored_turn

pytestmark = pytest.mark.anyio

PROMPT = Message("user", "mine is 123-45-6789", id="p")
CALL = ToolCall("c1", "lookup", {"word": "sun"})
RESULT = ToolResult("c1", "lookup", "sunny")


class Views(Processor):
    """Edits the view before every request."""

    id = "views"
    edits = "view"
    every_step = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put a remark before it."""
        del ctx
        return [Message("system", "seen", id="seen"), *(m for m in messages if m.id != "seen")]


def begin(
    memory: Memory, guards: Sequence[Processor] = (), after: Sequence[Processor] = (), run_id: str = "r"
) -> PipelineRun:
    """Return a run with memory on both sides."""
    inputs = expand_providers([Views(), memory], "input")
    return PipelineRun(inputs, expand_providers([*guards, memory, *after], "output"), new_run(run_id))


async def say(run: PipelineRun, text: str) -> None:
    """Go through a turn with a tool round."""
    view = await run.begin([PROMPT])
    await run.push(0, TextDelta("Let me see."))
    kept, _ = await run.tool_call(0, CALL)
    shown, _ = await run.tool_result(0, RESULT)
    assert (kept, shown) == (CALL, RESULT)
    assert (await run.next_step(view))[0].text == "seen"
    await run.push(1, TextDelta(text))
    await run.finish()


async def test_turn_is_guarded_finished_and_kept_without_a_model() -> None:
    """What left the guards is the turn, and the commit writes it."""
    async with Memory() as memory:
        run = begin(memory, [SsnGuard()])
        await say(run, "It is 987-65-4321.")
        assert run.text == "Let me see.\nIt is [REDACTED]."
        assert await run.commit(raises=True)
        stored = await memory.get_messages()
    assert texts(stored) == [
        ("user", "mine is [REDACTED]"),
        ("assistant", "Let me see."),
        ("tool", ""),
        ("assistant", "It is [REDACTED]."),
    ]
    assert [message.id for message in stored] == ["p", "r:0000", "r:0000.0000", "r:0001"]


async def test_stored_turn_is_replayed_through_the_processors_after_memory() -> None:
    """Those before memory have seen it; what the others make of it is shown, and nothing is written again."""
    async with Memory() as memory:
        first = begin(memory)
        await say(first, "a long answer")
        await first.commit(raises=True)
        for after, expected in ([Summarizer(6)], "a long... [summarized]"), ([], "a long answer"):
            again = begin(memory, after=after)
            await again.begin([PROMPT])
            stored = await again.find_stored()
            assert stored is not None
            assert not stored.was_aborted
            again.replay(stored)
            for step, part in split_stored_turn(stored.turn):
                await again.push(step, part)
            await again.finish()
            assert again.text.endswith(expected)
            assert [message.id for message in again.turn] == [message.id for message in first.turn]
        assert len(await memory.get_messages()) == 4


async def test_run_without_a_stored_turn_or_without_a_store_is_not_replayed() -> None:
    """A store that cannot be read is noted, and the run goes on as a new one."""
    async with Memory() as memory:
        assert await begin(memory).find_stored() is None

    class Broken(Processor):
        id = "broken"

        async def get_stored_turn(self, ctx: RunContext) -> list[Message]:
            raise StorageUnavailableError(f"no store for {ctx.run_id}")

    run = PipelineRun([], [Broken()], new_run())
    assert await run.find_stored() is None
    entry = run.state.trace.find("broken", "commit")
    assert entry is not None
    assert "no store for run" in str(entry.error)


class Passes(Processor):
    """Has a stream hook alone."""

    id = "passes"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass everything on."""
        del ctx
        return [part]


async def test_exactly_what_was_seen_is_kept_when_a_run_is_left() -> None:
    """Of two steps the reader has the first and half of the second; guards see it once more."""
    async with Memory() as memory:
        run = begin(memory, [EmailGuard(), Passes()])
        await run.begin([PROMPT])
        await run.push(0, TextDelta("Let me see."))
        await run.tool_call(0, CALL)
        await run.tool_result(0, RESULT)
        await run.push(1, TextDelta("A long answer "))
        await run.push(2, TextDelta(""))
        seen = Delivery(len("Let me see.\nA long"), [CALL, RESULT]).trim(run.released_messages())
        assert await run.save_partial(seen)
        stored = await memory.get_messages()
    assert [message.text for message in stored] == [PROMPT.text, "Let me see.", "", "A long"]
    assert [bool(message.metadata.get(ABORTED)) for message in stored] == [False, True, True, True]
    assert run.released_characters == len("Let me see.A long answer ")


def test_message_of_which_nothing_was_seen_is_left_out() -> None:
    """Neither its text nor its call has reached the reader."""
    released = [Message("assistant", [TextPart("ab"), CALL]), Message("assistant", "cd")]
    assert [m.text for m in Delivery(2).trim(released)] == ["ab"]
    assert Delivery().trim([Message("assistant", [CALL])]) == []


def test_steps_of_a_stored_answer_follow_from_ids_or_else_from_the_order() -> None:
    """Messages that others have stored have ids of their own, and parts that no stream has."""
    turn = [
        PROMPT,
        Message("assistant", [TextPart("a"), CALL], id="x"),
        Message("tool", [RESULT], id="y"),
        Message("assistant", [TextPart("b"), FilePart("image/png", url="https://example.com/i.png")], id="z"),
    ]
    assert list(split_stored_turn(turn)) == [(0, TextDelta("a")), (0, CALL), (0, RESULT), (1, TextDelta("b"))]


class Fails(Processor):
    """Stages a write that fails."""

    id = "fails"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage it."""
        ctx.on_commit(self._fail)
        return messages

    async def _fail(self) -> None:
        raise OSError("the disk is full")


async def test_first_error_is_raised_at_the_end_when_that_is_asked_for() -> None:
    """What could be written is written all the same."""
    async with Memory() as memory:
        run = begin(memory, [Fails()])
        await say(run, "yes")
        with pytest.raises(OSError, match="disk is full"):
            await run.commit(raises=True)
        assert len(await memory.get_messages()) == 4
        assert await run.commit(raises=False)


class DropsCalls(Processor):
    """Drops tool calls in the stream."""

    id = "drops-calls"

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Pass on text and results."""
        del ctx
        return [] if isinstance(part, ToolCall) else [part]


async def test_result_goes_with_its_call_when_a_guard_drops_the_call() -> None:
    """Also after the turn was rewritten: no model takes one without the other."""

    class Rewrites(Processor):
        id = "rewrites"

        async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
            del ctx
            return [
                m.replace(content=[part for part in m.parts if not isinstance(part, ToolCall)])
                for m in messages
            ]

    for guard in (DropsCalls(), Rewrites()):
        async with Memory() as memory:
            run = begin(memory, [guard])
            await say(run, "yes")
            assert [m.text for m in run.turn] == [PROMPT.text, "Let me see.", "yes"]
