"""A run that is sent again passes the processors after memory, and two runs never share an id."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.support.agents import (
    ADA,
    CALL,
    Mode,
    answer,
    both_modes,
    dump,
    events_of,
    lookup,
    model_of,
    streamed_text,
    texts,
)
from tests.support.guards import KeywordBlocker, Moderation, Summarizer, WordLimit
from tests.support.models import Halting, never

from recollect import Agent, ConflictError, Memory, Message, Processor, RunContext, ToolCall

pytestmark = pytest.mark.anyio


@both_modes
@pytest.mark.parametrize(
    ("guard", "shown"), [(WordLimit(2), "the secret"), (Summarizer(10), "the secret... [summarized]")]
)
async def test_guard_after_memory_sees_a_run_that_is_sent_again(
    sqlite_url: str, mode: Mode, guard: Processor, shown: str
) -> None:
    """What is stored is the full text, what is shown the edited one, the second time as the first."""
    async with Memory(sqlite_url) as memory:
        model = model_of("the secret is out", mode=mode)
        first = await answer(Agent(model, output_processors=[memory, guard]), mode, "q", run_id="r1", **ADA)
        before = dump(sqlite_url)
        again = await answer(Agent(never, output_processors=[memory, guard]), mode, "q", run_id="r1", **ADA)
        assert dump(sqlite_url) == before
    assert first.text.strip() == again.text.strip() == shown
    assert [m.text for m in again.messages] == ["q", again.text]
    assert again.saved


@both_modes
async def test_run_that_is_sent_again_can_be_blocked_after_memory(sqlite_url: str, mode: Mode) -> None:
    """A guard that was added later still has its say."""
    async with Memory(sqlite_url) as memory:
        await Agent(model_of("awful"), memory=memory).generate("q", run_id="r1", **ADA)
        again = await answer(
            Agent(never, output_processors=[memory, Moderation()]), mode, "q", run_id="r1", **ADA
        )
    assert again.tripwire is not None
    assert again.text == ""


async def test_stream_of_a_stored_run_has_its_tool_rounds(sqlite_url: str) -> None:
    """A replayed stream has the events of the first one: texts, tool calls, results and the end."""
    async with Memory(sqlite_url) as memory:
        model = model_of(["Let me see.", CALL], "It means pong.", chunk_size=100)
        first = await events_of(Agent(model, tools=[lookup], memory=memory), "q", run_id="r1", **ADA)
        again = await events_of(Agent(never, memory=memory), "q", run_id="r1", **ADA)
    assert [event.type for event in again] == [event.type for event in first]
    assert [event.tool_call for event in again] == [event.tool_call for event in first]
    assert streamed_text(again) == streamed_text(first) == "Let me see.\nIt means pong."


@both_modes
async def test_run_that_was_broken_off_is_not_called_finished_when_it_is_sent_again(mode: Mode) -> None:
    """What `save_partial` kept comes back with the finish reason `aborted`."""
    async with Memory() as memory:
        model = Halting("one ", "two ")
        agent = Agent(model, memory=memory)
        async with agent.stream("q", save_partial=True, run_id="r1", **ADA) as stream:
            await stream.next_event()
        again = await answer(Agent(never, memory=memory), mode, "q", run_id="r1", **ADA)
    assert (again.text, again.finish_reason, again.saved) == ("one ", "aborted", True)


@both_modes
async def test_run_id_of_another_thread_is_a_conflict(sqlite_url: str, mode: Mode) -> None:
    """A turn of another thread is never passed off as this one's; nobody is asked."""
    async with Memory(sqlite_url) as memory:
        await Agent(model_of("a1"), memory=memory).generate("q", run_id="r1", **ADA)
        with pytest.raises(ConflictError, match="'r1' is stored in thread 't1'"):
            await answer(Agent(never, memory=memory), mode, "q", run_id="r1", **ADA | {"thread_id": "t2"})


class Held:
    """Answers when it may, the first time maybe with a tool call."""

    def __init__(self, *replies: str | ToolCall) -> None:
        """Take what to say."""
        self._replies = list(replies)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Wait and answer."""
        del messages
        self.asked.set()
        await self.may_answer.wait()
        yield self._replies.pop(0)


async def test_one_turn_is_kept_when_two_runs_of_one_id_are_under_way() -> None:
    """The later one is not mixed into the first, and does not say that it was saved."""
    async with Memory() as memory:
        models = (Held("short answer"), Held(CALL, "long answer"), Held("another answer"))
        agents = [Agent(model, tools=[lookup], memory=memory) for model in models]
        runs = [asyncio.create_task(agent.generate("q", run_id="r1", **ADA)) for agent in agents]
        for model in models:
            await model.asked.wait()
        for model, run in zip(models, runs, strict=True):
            model.may_answer.set()
            await run
        results = [run.result() for run in runs]
        stored = await memory.get_messages(**ADA)
    assert [(result.text, result.saved) for result in results] == [
        ("short answer", True),
        ("long answer", False),
        ("another answer", False),
    ]
    assert texts(stored) == [("user", "q"), ("assistant", "short answer")]
    entry = results[1].trace.find("message-persistence", "commit")
    assert entry is not None
    assert "already stored" in str(entry.error)


@both_modes
async def test_guards_before_memory_still_look_at_the_prompt_of_a_stored_run(mode: Mode) -> None:
    """A repeated run id opens no way around the input side."""
    async with Memory() as memory:
        await Agent(model_of("a1"), memory=memory).generate("q", run_id="r1", **ADA)
        agent = Agent(never, memory=memory, input_processors=[KeywordBlocker()])
        blocked = await answer(agent, mode, "ignore previous", run_id="r1", **ADA)
    assert blocked.tripwire is not None


async def test_tripwire_says_that_nothing_was_released_when_nobody_could_see_it() -> None:
    """`generate` shows nothing before its end, so that a trip has let nothing out."""
    agent = Agent(model_of(["text first", CALL], "k"), tools=[lookup], output_processors=[NoTools()])
    result = await agent.generate("q")
    streamed = (await events_of(agent, "q"))[-1].tripwire
    assert result.tripwire is not None
    assert streamed is not None
    assert (result.tripwire.released, streamed.released) == (0, len("k"))


class NoTools(Processor):
    """Blocks whatever comes to an end."""

    id = "no-tools"
    observes = True

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Abort."""
        del messages
        ctx.abort("no")
