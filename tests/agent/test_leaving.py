"""Streams that are left or cancelled keep what was seen; broken ones, and cancelled calls, keep nothing."""

import asyncio
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, dump, texts
from tests.support.garbage import no_collection
from tests.support.guards import Hoarder, SsnGuard
from tests.support.models import Halting
from tests.support.waiting import GENEROUS, until

from recollect import Agent, Memory, Message, ModelError, Processor, RunContext
from recollect.agent.stream import RunStream

pytestmark = pytest.mark.anyio


@both_modes
async def test_nothing_is_saved_when_a_run_is_cancelled_that_must_not_be_kept(
    sqlite_url: str, mode: Mode
) -> None:
    """A cancelled `generate`, or a stream without `save_partial`, leaves all rows as they were."""
    async with Memory(sqlite_url) as memory:
        await memory.list_threads(**ADA)
        before = dump(sqlite_url)
        model = Halting("held ", "back")
        agent = Agent(model, memory=memory, output_processors=[Hoarder()])
        options = {"save_partial": False} if mode == "stream" else {}
        task = asyncio.create_task(answer(agent, mode, "hi", **options, **ADA))
        await model.halted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert dump(sqlite_url) == before
    assert model.open == 0


async def test_prompt_is_kept_when_a_stream_is_cancelled_before_anything_was_seen(sqlite_url: str) -> None:
    """What a user asked is not lost; it is marked as aborted itself, because there is no answer to mark."""
    async with Memory(sqlite_url) as memory:
        model = Halting("held ", "back")
        agent = Agent(model, memory=memory, output_processors=[Hoarder(), SsnGuard()])
        task = asyncio.create_task(agent.stream("mine is 123-45-6789", run_id="r", **ADA).result())
        await model.halted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (saved,) = await memory.get_messages(**ADA)
        assert (saved.text, saved.metadata) == ("mine is [REDACTED]", {"aborted": True})
        again = await answer(agent, "stream", "mine?", run_id="r", **ADA)
    assert (again.text, again.finish_reason, again.saved) == ("", "aborted", True)


class Slow(Processor):
    """Thinks about a prompt until it is told to go on."""

    id = "slow"

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.asked = asyncio.Event()

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Wait for ever."""
        del messages, ctx
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_nothing_is_kept_when_a_stream_is_left_before_the_guards_have_passed_the_prompt() -> None:
    """A guard that is not done might have redacted or blocked it."""
    guard = Slow()
    async with Memory() as memory:
        task = asyncio.create_task(
            Agent(memory=memory, input_processors=[guard]).stream("hi", **ADA).result()
        )
        await guard.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await memory.get_messages(**ADA) == []


async def test_piece_is_not_kept_when_its_reader_is_cancelled_with_it_in_hand() -> None:
    """Whoever cancels a reader takes the piece that it has not passed on: nobody has seen it."""
    sent, is_sending = list[str](), asyncio.Event()

    async def send(text: str) -> None:
        if sent:
            is_sending.set()
            await asyncio.Event().wait()
        sent.append(text)

    async def serve(agent: Agent) -> None:
        async with agent.stream("hi", **ADA) as stream:
            async for event in stream:
                await send(event.text)

    async with Memory() as memory:
        task = asyncio.create_task(serve(Agent(Halting("one ", "two "), memory=memory)))
        await is_sending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts(await memory.get_messages(**ADA)) == [("user", "hi"), ("assistant", "one ")]


async def _cancelled_stream(memory: Memory, *, save_partial: bool) -> list[str]:
    """Cancel a stream after three chunks of text and return them."""
    model, seen = Halting("one ", "two ", "three"), list[str]()

    async def consume() -> None:
        async for event in Agent(model, memory=memory).stream("hi", save_partial=save_partial, **ADA):
            seen.append(event.text)

    task = asyncio.create_task(consume())
    await model.halted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return seen


async def test_nothing_is_saved_when_a_stream_is_cancelled(sqlite_url: str) -> None:
    """With `save_partial=False` a turn is saved whole or not at all."""
    async with Memory(sqlite_url) as memory:
        assert await _cancelled_stream(memory, save_partial=False) == ["one ", "two ", "three"]
        assert await memory.get_messages(**ADA) == []


async def test_what_was_seen_is_saved_when_a_stream_is_cancelled_and_that_is_asked_for(
    sqlite_url: str,
) -> None:
    """`save_partial` keeps the prompt and the text that was shown, marked as aborted."""
    async with Memory(sqlite_url) as memory:
        await _cancelled_stream(memory, save_partial=True)
        saved = await memory.get_messages(**ADA)
    assert texts(saved) == [("user", "hi"), ("assistant", "one two three")]
    assert saved[-1].metadata == {"aborted": True}


async def test_nothing_is_open_when_a_stream_is_left_early() -> None:
    """Leaving `async with` closes the model's answer at once: no task and no generator is left."""
    model = Halting("one ", "two ", "three")
    before = asyncio.all_tasks()
    async with Agent(model).stream("hi") as stream:
        async for event in stream:
            assert event.text == "one "
            break
        assert model.open == 1
    assert model.open == 0
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("leave", ["break", "raise", "aclose"])
async def test_what_was_seen_is_saved_when_a_stream_is_left_early(sqlite_url: str, leave: str) -> None:
    """Right after the block the partial turn is there, however the block was left."""
    model = Halting("one ", "two ", "three")
    async with Memory(sqlite_url) as memory:
        agent = Agent(model, memory=memory)
        stream = agent.stream("hi", save_partial=True, **ADA)
        with suppress(KeyError):
            async with stream:
                assert (await stream.next_event()) is not None
                await _leave(leave, stream)
        saved = await memory.get_messages(**ADA)
    assert texts(saved) == [("user", "hi"), ("assistant", "one ")]
    assert saved[-1].metadata == {"aborted": True}


async def test_what_was_seen_is_saved_when_a_stream_is_left_early_by_default(sqlite_url: str) -> None:
    """A reader that leaves need not ask for it; who does not want it says so."""
    async with Memory(sqlite_url) as memory:
        for prompt, options in (("no", {"save_partial": False}), ("hi", {})):
            agent = Agent(Halting("one ", "two "), memory=memory)
            async with agent.stream(prompt, **options, **ADA) as stream:
                await stream.next_event()
        assert texts(await memory.get_messages(**ADA)) == [("user", "hi"), ("assistant", "one ")]


@both_modes
async def test_nothing_is_saved_when_the_model_breaks_off(sqlite_url: str, mode: Mode) -> None:
    """An answer that ends with an error is no answer."""
    async with Memory(sqlite_url) as memory:
        await memory.list_threads(**ADA)
        before = dump(sqlite_url)
        agent = Agent(Halting("one ", error=ModelError("line cut")), memory=memory)
        with pytest.raises(ModelError, match="line cut"):
            await answer(agent, mode, "hi", **ADA)
        assert dump(sqlite_url) == before


async def test_partial_turn_holds_no_secret_when_a_guard_stands_before_memory(sqlite_url: str) -> None:
    """What a guard redacts in whole turns it redacts in partial ones, the prompt's message included."""
    async with Memory(sqlite_url) as memory:
        model = Halting("it is 123-45-6789. ", "more")
        agent = Agent(model, memory=memory, output_processors=[SsnGuard()])
        async with agent.stream("mine is 123-45-6789", save_partial=True, **ADA) as stream:
            await stream.next_event()
        assert "123-45-6789" not in str(dump(sqlite_url))


async def test_task_that_is_cancelled_while_a_tool_runs_saves_nothing(sqlite_url: str) -> None:
    """A tool that is under way is cancelled with its run."""
    started, ended = asyncio.Event(), list[str]()

    async def lookup(word: str) -> str:
        """Look a word up, slowly."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(word)
        return word

    async with Memory(sqlite_url) as memory:
        agent = Agent(_calling(), tools=[lookup], memory=memory)
        task = asyncio.create_task(agent.generate("hi", **ADA))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["ping"]
        assert await memory.get_messages(**ADA) == []


async def test_run_is_closed_at_once_when_a_loop_over_it_is_broken_off(sqlite_url: str) -> None:
    """Without `async with` a run ends with the loop too, not when the garbage is collected."""
    with no_collection():
        async with Memory(sqlite_url) as memory:
            model = Halting("one ", "two ")
            async for _ in Agent(model, memory=memory).stream("hi", save_partial=True, **ADA):
                break
            await until(lambda: model.open == 0)
            async with asyncio.timeout(GENEROUS):
                while not (saved := await memory.get_messages(**ADA)):
                    pass
        assert texts(saved) == [("user", "hi"), ("assistant", "one ")]


PROGRAM = """
import asyncio
from recollect import Agent, Memory
from recollect.testing import ScriptedModel

async def main():
    async for event in Agent(ScriptedModel("a b c", chunk_size=1), memory=Memory()).stream("q"):
        break

asyncio.run(main())
"""


def test_program_ends_quietly_when_a_loop_was_broken_off_right_before() -> None:
    """`asyncio.run` closes what is left without a word about generators or tasks."""
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_stream_is_at_its_end_when_it_was_left() -> None:
    """Whoever reads on after leaving, or at the end, gets nothing more and no error."""
    stream = Agent(Halting("one ")).stream("hi")
    waiting = [await stream.next_event()]
    reader = asyncio.create_task(stream.next_event())
    await asyncio.sleep(0.01)
    await stream.aclose()
    waiting += [await reader, await stream.next_event()]
    assert [event and event.text for event in waiting] == ["one ", None, None]


async def test_result_is_there_when_a_stream_is_run_to_its_end() -> None:
    """`result()` reads what is left of the events."""
    model = Halting("one ")
    model.go_on.set()
    stream = Agent(model).stream("hi")
    await stream.next_event()
    assert (await stream.result()).text == "one the end"


async def _leave(how: str, stream: RunStream) -> None:
    if how == "raise":
        raise KeyError(how)
    if how == "aclose":
        await stream.aclose()


def _calling() -> Halting:
    model = Halting(CALL)
    model.go_on.set()
    return model
