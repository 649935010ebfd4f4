"""A long-term memory in a real agent: after the guards on both sides, and never in the way of an answer."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.backends.audit_list import AuditList
from tests.support.agents import Mode, answer, both_modes, events_of, lookup, model_of
from tests.support.gateway_server import GatewayServer, answers, gateway_server, settings_for
from tests.support.guards import SsnGuard

from recollect import Agent, FilePart, Memory, Message, Processor, RunContext, StorageError, ToolCall
from recollect.backends.base import (
    CompletedRun,
    MemoryBackend,
    NoteBlock,
    RecalledItem,
    Recollection,
    StartedRun,
)
from recollect.backends.gateway.backend import MemoryGatewayBackend
from recollect.backends.gateway.client import MemoryGatewayClient
from recollect.backends.processor import BackendProcessor
from recollect.errors import WrongOwnerError

pytestmark = pytest.mark.anyio

IDS: dict[str, Any] = {"resource_id": "ada", "thread_id": "s1"}
TEA = {"results": [{"text": "Ada drinks tea.", "resource_uri": "r://1"}]}


class Trips(Processor):
    """Stops every run, on the side where it stands."""

    id = "trips"
    blocks_only = True

    def __init__(self, *, breaks: bool = False) -> None:
        """Trip, or fail by an error of another kind."""
        self._breaks = breaks

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stop before anything is read."""
        return self._stop(messages, ctx)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stop before anything is written."""
        return self._stop(messages, ctx)

    def _stop(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        if self._breaks:
            raise RuntimeError("the guard is broken")
        if messages:
            ctx.abort("no")
        return messages


@dataclass
class Scripted:
    """A memory in plain Python that recalls what it is told, fails as it is told, and waits to persist."""

    found: Recollection = field(default_factory=Recollection)
    recall_error: Exception | None = None
    persist_error: Exception | None = None
    gate: asyncio.Event | None = None
    started: list[StartedRun] = field(default_factory=list[StartedRun])
    kept: list[CompletedRun] = field(default_factory=list[CompletedRun])
    name: str = "scripted"
    rule: str = ""

    async def recall_before_run(self, run: StartedRun) -> Recollection:
        """Recall, or fail."""
        self.started.append(run)
        if self.recall_error is not None:
            raise self.recall_error
        return self.found

    async def persist_after_run(self, run: CompletedRun) -> None:
        """Keep the run, or fail."""
        if self.gate is not None:
            await self.gate.wait()
        if self.persist_error is not None:
            raise self.persist_error
        self.kept.append(run)

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Have one tool."""
        return (lookup,)

    def status(self) -> Mapping[str, object]:
        """Say nothing."""
        return {}

    async def close(self) -> None:
        """Do nothing."""


def agent_with(
    backend: Any,  # noqa: ANN401 - a MemoryBackend, or what stands for one
    model: object,
    *,
    before: Sequence[Processor] = (),
    output_guards: Sequence[Processor] = (),
    in_background: bool = False,
    **options: Any,  # noqa: ANN401 - those of Agent
) -> tuple[Agent, BackendProcessor]:
    """Return an agent whose long-term memory comes after guards on both sides."""
    processor = BackendProcessor(backend, in_background=in_background)
    agent = Agent(
        model,
        input_processors=[*before, processor],
        output_processors=[*output_guards, processor],
        **options,
    )
    return agent, processor


@asynccontextmanager
async def gateway() -> AsyncGenerator[tuple[GatewayServer, MemoryGatewayBackend, AuditList]]:
    """Run a gateway that recalls one thing, and return it with a backend and its events."""
    async with gateway_server() as server:
        server.on("search", answers(TEA))
        audit = AuditList()
        yield server, MemoryGatewayBackend(MemoryGatewayClient(settings_for(server)), audit), audit


def error_of(result: Any, phase: str) -> str:  # noqa: ANN401 - a Result
    """Return what the trace says went wrong in a phase."""
    entry = result.trace.find("long-term-memory", phase)
    assert entry is not None
    return entry.error or ""


@both_modes
class TestGatewayInAnAgent:
    """The gateway's backend, a real server, and a scripted model."""

    async def test_recalled_content_stands_before_the_prompt_and_outside_of_instructions(
        self, mode: Mode
    ) -> None:
        """It is one message of its own, marked as memory, and no part of the turn."""
        model = model_of("You do.", mode=mode)
        async with gateway() as (server, backend, _):
            agent, _ = agent_with(backend, model, instructions=f"Be kind. {backend.rule}")
            result = await answer(agent, mode, "Do I drink tea?", **IDS)
        (shown,) = model.shown
        recalled, prompt = shown[-2:]
        assert (recalled.role, recalled.origin) == ("system", "memory")
        assert "- (r://1) Ada drinks tea." in recalled.text
        assert (prompt.role, prompt.text) == ("user", "Do I drink tea?")
        assert [m.role for m in shown if "Ada drinks tea." in m.text] == ["system"]
        assert not [m for m in shown if m.origin != "memory" and "Ada drinks tea." in m.text]
        assert [m.text for m in result.messages] == ["Do I drink tea?", "You do."]
        assert "Ada drinks tea." not in server.requests[1].body.decode()

    async def test_gateway_gets_what_left_the_guards(self, mode: Mode) -> None:
        """Numbers that guards redact are in no request, in the prompt or in the answer."""
        async with gateway() as (server, backend, _):
            model = model_of("Yours is 123-45-6789.", mode=mode)
            agent, _ = agent_with(backend, model, before=[SsnGuard()], output_guards=[SsnGuard()])
            await answer(agent, mode, "Mine is 123-45-6789.", **IDS)
        assert server.sent_to("search")[0]["query"] == "Mine is [REDACTED]."
        contents = [message["content"] for message in server.sent_to("add")[0]["messages"]]
        assert contents == ["Mine is [REDACTED].", "Yours is [REDACTED]."]

    async def test_fallback_at_the_tool_limit_is_persisted(self, mode: Mode) -> None:
        """It is what the user was answered."""
        async with gateway() as (server, backend, _):
            model = model_of(ToolCall("c1", "lookup", {"word": "ping"}), mode=mode)
            agent, _ = agent_with(
                backend, model, tools=[lookup], max_steps=2, limit_answer="I could not finish."
            )
            result = await answer(agent, mode, "What is ping?", **IDS)
        assert result.finish_reason == "tool_limit"
        assert server.sent_to("add")[0]["messages"][1]["content"] == "I could not finish."
        assert server.operations == ["search", "add", "flush"]

    async def test_run_that_is_blocked_at_the_door_asks_nobody(self, mode: Mode) -> None:
        """A trip before memory leaves no request and no event."""
        async with gateway() as (server, backend, audit):
            agent, _ = agent_with(backend, model_of("no", mode=mode), before=[Trips()])
            assert (await answer(agent, mode, "hi", **IDS)).tripwire
        assert (server.requests, audit.events) == ([], [])

    async def test_run_that_trips_is_not_persisted(self, mode: Mode) -> None:
        """A trip on the answer comes before any write."""
        async with gateway() as (server, backend, _):
            agent, _ = agent_with(backend, model_of("no", mode=mode), output_guards=[Trips()])
            assert (await answer(agent, mode, "hi", **IDS)).tripwire
        assert server.operations == ["search"]

    async def test_run_that_trips_after_memory_is_not_persisted(self, mode: Mode) -> None:
        """Also where memory has staged its write already."""
        async with gateway() as (server, backend, _):
            processor = BackendProcessor(backend)
            agent = Agent(
                model_of("no", mode=mode),
                input_processors=[processor],
                output_processors=[processor, Trips()],
            )
            assert (await answer(agent, mode, "hi", **IDS)).tripwire
        assert server.operations == ["search"]

    async def test_run_that_ends_in_an_error_is_not_persisted(self, mode: Mode) -> None:
        """A model or a guard that fails leaves nothing in the gateway."""
        async with gateway() as (server, backend, _):
            broken, _ = agent_with(backend, model_of(RuntimeError("no model"), mode=mode))
            with pytest.raises(Exception, match="no model"):
                await answer(broken, mode, "hi", **IDS)
            guarded, _ = agent_with(backend, model_of("fine", mode=mode), output_guards=[Trips(breaks=True)])
            with pytest.raises(RuntimeError, match="the guard is broken"):
                await answer(guarded, mode, "hi", **IDS)
        assert server.operations == ["search", "search"]

    async def test_run_sent_again_is_not_persisted_again(self, mode: Mode, sqlite_url: str) -> None:
        """A committed run that is sent again by its id comes back from the store; nothing is added."""
        async with gateway() as (server, backend, _), Memory(sqlite_url) as memory:
            agent, _ = agent_with(backend, model_of("You do.", mode=mode), memory=memory)
            for _ in range(2):
                result = await answer(agent, mode, "Do I drink tea?", run_id="r1", tenant_id=None, **IDS)
                assert result.text == "You do."
        assert server.operations.count("add") == 1


class TestLeavingAStream:
    """A stream that is left half-way."""

    @pytest.mark.parametrize("save_partial", [False, True])
    async def test_run_that_is_left_is_not_persisted(self, *, save_partial: bool) -> None:
        """Not even where the transcript keeps what was seen: it is no answer."""
        async with gateway() as (server, backend, _):
            agent, _ = agent_with(backend, model_of("You do drink tea.", chunk_size=3))
            async with agent.stream("Do I drink tea?", save_partial=save_partial, **IDS) as stream:
                async for event in stream:
                    if event.type == "text":
                        break
        assert server.operations == ["search"]


async def test_snapshot_stands_before_what_was_recalled() -> None:
    """The order is snapshot, recalled items, prompt; the trace says whence, and quotes nothing."""
    milk = RecalledItem("milk", "m1", "chat:s0", 0.5, "current_chat", "r://" + "x" * 1000 + "\u202e")
    found = Recollection(
        (NoteBlock("MEMORY", ("tea",)),), items=(milk, RecalledItem(" "), RecalledItem("sugar"))
    )
    model = model_of("ok")
    agent, _ = agent_with(Scripted(found), model)
    result = await agent.generate("hi", **IDS)
    assert [(m.role, m.origin) for m in model.shown[0]] == [
        ("system", "system"),
        ("system", "memory"),
        ("user", "input"),
    ]
    assert model.shown[0][0].text == "MEMORY\n- tea"
    assert [message.kind for message in model.shown[0]] == ["snapshot", "recalled", None]
    entry = result.trace.find("long-term-memory", "input")
    assert entry is not None
    facts = {"score": 0.5, "source_scope": "current_chat", "session_id": "chat:s0", "id": "m1"}
    assert entry.details == {
        "snapshot_characters": 12,
        "recalled": 3,
        "items": [facts | {"resource_uri": "r://" + "x" * 196 + " …"}, {}],
    }


async def test_recollection_of_nothing_changes_nothing() -> None:
    """No empty message stands in the prompt."""
    model = model_of("ok")
    agent, _ = agent_with(Scripted(), model)
    await agent.generate("hi", **IDS)
    assert [m.text for m in model.shown[0]] == ["hi"]


async def test_backend_is_told_the_ids_the_times_and_the_whole_turn() -> None:
    """A run without a thread has an empty session; the answer is not older than the question."""
    backend = Scripted()
    agent, _ = agent_with(backend, model_of(ToolCall("c1", "lookup", {"word": "ping"}), "pong"))
    result = await agent.generate("ping?", run_id="r1")
    assert backend.started == [StartedRun("", "r1", "ping?", ("(system)", None))]
    (kept,) = backend.kept
    assert (kept.session_id, kept.run_id, kept.prompt, kept.answer) == ("", "r1", "ping?", "pong")
    assert kept.asked_at <= kept.answered_at
    assert list(kept.messages) == result.messages
    assert [m.role for m in kept.messages] == ["user", "assistant", "tool", "assistant"]


async def test_backend_decides_when_a_run_has_no_prompt_or_no_answer() -> None:
    """It is given the whole turn; without a prompt nothing is recalled."""
    backend = Scripted()
    agent, _ = agent_with(backend, model_of(["Let me check.", ToolCall("c1", "lookup", {"word": "x"})], ""))
    await agent.generate("hi", **IDS)
    agent, _ = agent_with(backend, model_of("ok"))
    await agent.generate([Message("user", [FilePart("image/png", url="https://example.org/tea.png")])], **IDS)
    assert len(backend.started) == 1
    assert [(run.prompt, run.answer) for run in backend.kept] == [("hi", ""), ("", "ok")]


async def test_gateway_is_sent_nothing_when_the_last_step_is_empty() -> None:
    """What was said before a tool call is no answer, and a question alone is no turn."""
    async with gateway() as (server, backend, _):
        agent, _ = agent_with(
            backend, model_of(["Let me check.", ToolCall("c1", "lookup", {"word": "x"})], ""), tools=[lookup]
        )
        result = await agent.generate("hi", **IDS)
    assert (server.operations, result.saved) == (["search"], False)


async def test_tools_of_the_backend_are_the_agents() -> None:
    """The model can call them."""
    backend = Scripted()
    assert isinstance(backend, MemoryBackend)
    processor = BackendProcessor(backend)
    assert list(processor.get_tools()) == [lookup]


@both_modes
async def test_failed_recall_degrades_to_no_memory(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    """Our own errors are told as they are; of others, which may quote anything, only the type."""
    own, foreign = StorageError("the disk is full"), KeyError("uk_secret")
    for error, told in (
        (own, "StorageError: the disk is full"),
        (foreign, "RecollectError: scripted failed: KeyError"),
    ):
        agent, _ = agent_with(Scripted(recall_error=error), model_of("ok", mode=mode))
        result = await answer(agent, mode, "hi", **IDS)
        assert result.text == "ok"
        assert error_of(result, "input") == told
    assert "uk_secret" not in caplog.text


@both_modes
async def test_failed_persistence_returns_the_answer(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    """`saved` is false and the trace says why, without quoting a foreign error."""
    own, foreign = StorageError("the disk is full"), KeyError("uk_secret")
    for error, told in (
        (own, "StorageError: the disk is full"),
        (foreign, "RecollectError: scripted failed: KeyError"),
    ):
        agent, _ = agent_with(Scripted(persist_error=error), model_of("ok", mode=mode))
        result = await answer(agent, mode, "hi", **IDS)
        assert (result.text, result.saved) == ("ok", False)
        assert error_of(result, "commit") == told
    assert "uk_secret" not in caplog.text


async def test_store_of_another_loop_is_raised_and_not_hidden() -> None:
    """A mistake in the program is not degraded to a run without memory."""
    for backend in (Scripted(recall_error=WrongOwnerError()), Scripted(persist_error=WrongOwnerError())):
        agent, _ = agent_with(backend, model_of("ok"))
        with pytest.raises(WrongOwnerError):
            await agent.generate("hi", **IDS)


class TestLate:
    """`in_background=True`: the answer does not wait."""

    async def test_answer_is_there_before_it_is_persisted(self) -> None:
        """`wait_until_idle` waits for what is under way."""
        backend = Scripted(gate=asyncio.Event())
        agent, processor = agent_with(backend, model_of("ok"), in_background=True)
        result = await agent.generate("hi", **IDS)
        assert (result.text, result.saved, backend.kept) == ("ok", True, [])
        waiting = asyncio.create_task(processor.wait_until_idle())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert backend.gate is not None
        backend.gate.set()
        await waiting
        assert [run.answer for run in backend.kept] == ["ok"]

    async def test_turns_of_a_session_are_persisted_in_order(self) -> None:
        """A turn waits for the one before it in its session."""
        async with gateway() as (server, backend, _):
            agent, processor = agent_with(backend, model_of("one", "two", "three"), in_background=True)
            for number in range(3):
                await agent.generate(str(number), **IDS)
            await processor.wait_until_idle()
        assert [operation for operation in server.operations if operation != "search"] == ["add", "flush"] * 3
        assert [body["messages"][0]["content"] for body in server.sent_to("add")] == ["0", "1", "2"]

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (StorageError("the disk is full"), "StorageError: the disk is full"),
            (KeyError("uk_secret"), "RecollectError: scripted failed: KeyError"),
            (WrongOwnerError("not here"), "RecollectError: not here"),
        ],
    )
    async def test_failure_is_noted_in_trace_and_log(
        self, error: Exception, told: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nobody waits for it any more, so that nothing is raised and no task ends badly."""
        agent, processor = agent_with(Scripted(persist_error=error), model_of("ok"), in_background=True)
        with caplog.at_level(logging.DEBUG):
            result = await agent.generate("hi", **IDS)
            await processor.wait_until_idle()
        assert (result.text, result.saved) == ("ok", True)
        assert error_of(result, "result") == told
        assert "goes on without memory" in caplog.text
        assert "uk_secret" not in caplog.text

    async def test_trip_persists_nothing(self) -> None:
        """Late is not earlier: a blocked run starts no work."""
        backend = Scripted()
        agent, processor = agent_with(backend, model_of("no"), in_background=True, output_guards=[Trips()])
        assert (await agent.generate("hi", **IDS)).tripwire
        await processor.wait_until_idle()
        assert backend.kept == []


async def test_streaming_does_not_wait_for_memory() -> None:
    """Memory neither edits nor blocks, so that text is streamed in chunks."""
    agent, _ = agent_with(Scripted(), model_of("one two three", chunk_size=4))
    chunks = [event.text for event in await events_of(agent, "hi", **IDS) if event.type == "text"]
    assert len(chunks) > 1
