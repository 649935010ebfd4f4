"""The agent: a model, tools, and one pipeline of guards and memory around them."""

import asyncio
import concurrent.futures
import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack, cast

from recollect.agent.result import Event, Result
from recollect.agent.run import OnMemoryError, Plan, Run
from recollect.checks import check_id, check_int, check_text
from recollect.errors import InvalidArgumentError, ModelUnavailableError
from recollect.memory import Memory
from recollect.messages import Message, new_message_id
from recollect.processors.base import Ids, RunIds, RunState, ToolProvider, run_ids
from recollect.processors.expand import Item, expand
from recollect.sync import Portal
from recollect.trace import Trace

Prompt: TypeAlias = str | Message | Sequence[Message | Mapping[str, object]]
"""What a run may be given: text, a message, or a list of messages (also as dicts with role and content)."""

_MOST_STEPS = 20


class Agent:
    """A model that remembers, behind guards.

    Processors run in the order given, each provider replaced by its own. `memory` goes behind the guards on
    both sides. One agent serves many runs at once.
    """

    def __init__(
        self,
        model: object = "offline",
        *,
        instructions: str = "",
        tools: Sequence[Callable[..., object]] = (),
        memory: Memory | None = None,
        input_processors: Sequence[Item] = (),
        output_processors: Sequence[Item] = (),
        max_steps: int = _MOST_STEPS,
        trace_content: bool = False,
    ) -> None:
        """Put the pipeline together; what is wrong with it is said now, not at the first run.

        `max_steps` is how often the model may be asked in one run, `trace_content` puts message text
        into OpenTelemetry spans.
        """
        self._model = model
        self._instructions = check_text(instructions, "instructions")
        self._memory = memory
        self._input_side = expand(input_processors, "input", memory)
        self._output_side = expand(output_processors, "output", memory)
        # Only there does memory write, so only there are its tools of any use.
        owners = [processor for processor in self._output_side if isinstance(processor, ToolProvider)]
        self._tools = (*tools, *(tool for owner in owners for tool in owner.get_tools()))
        self._max_steps = check_int(max_steps, "max_steps", minimum=1)
        self._trace_content = trace_content
        self._engine: Any = None
        self._portal: Portal | None = None
        self._last_shown: ContextVar[list[Message]] = ContextVar("recollect_last_shown")

    async def generate(
        self,
        prompt: Prompt,
        *,
        run_id: str | None = None,
        raise_on_tripwire: bool = False,
        on_memory_error: OnMemoryError = "return",
        **ids: Unpack[Ids],
    ) -> Result:
        """Answer a prompt and return the result; a trip is `result.tripwire` unless it is to be raised."""
        stream = RunStream(self, prompt, run_id, run_ids(ids), on_memory_error=on_memory_error, chunked=False)
        result = await stream.result()
        if raise_on_tripwire and result.tripwire is not None:
            raise result.tripwire
        return result

    def stream(
        self,
        prompt: Prompt,
        *,
        run_id: str | None = None,
        raise_on_tripwire: bool = False,
        on_memory_error: OnMemoryError = "return",
        save_partial: bool = False,
        **ids: Unpack[Ids],
    ) -> "RunStream":
        """Answer a prompt as a stream of events; use `async with` to leave early without loose ends."""
        return RunStream(
            self,
            prompt,
            run_id,
            run_ids(ids),
            on_memory_error=on_memory_error,
            save_partial=save_partial,
            raise_on_tripwire=raise_on_tripwire,
        )

    def generate_sync(self, prompt: Prompt, **options: Any) -> Result:  # noqa: ANN401 - those of generate
        """Do the same as `generate` from sync code."""
        result = self._own_portal().run(self.generate(prompt, **options))
        self._last_shown.set(result.prompt)
        return result

    def stream_sync(self, prompt: Prompt, **options: Any) -> Iterator[Event]:  # noqa: ANN401 - those of stream
        """Do the same as `stream` from sync code."""
        yield from SyncStream(self._own_portal(), self.stream(prompt, **options))

    def get_last_messages(self) -> list[Message]:
        """Return what the model was last shown in this task."""
        return list(self._last_shown.get([]))

    def close(self) -> None:
        """End the thread that the sync methods run in; a later call starts another."""
        if self._portal is not None:
            self._portal.close()

    def start(self, prompt: Prompt, run_id: str | None, ids: RunIds, options: "dict[str, Any]") -> Run:
        """Check a call and prepare its run; nothing is asked or read yet."""
        name = new_message_id() if run_id is None else _checked_run_id(run_id)
        messages = _prompt_messages(prompt, name)
        engine = self._get_engine()
        state = RunState(name, ids, Trace(), self._instructions, engine.ask)
        plan = Plan(
            engine=engine,
            instructions=self._instructions,
            input_side=self._input_side,
            output_side=self._output_side,
            max_steps=self._max_steps,
            trace_content=self._trace_content,
            last_shown=self._last_shown,
            may_be_stored=run_id is not None,
            **options,
        )
        return Run(plan, state, messages)

    def _get_engine(self) -> Any:  # noqa: ANN401 - an Engine, whose module is loaded here
        if self._engine is None:
            try:
                from recollect.agent.engine import Engine
            except ImportError as error:
                raise ModelUnavailableError(
                    "the agent needs its extra: pip install 'recollect[agent]'"
                ) from error
            self._engine = Engine(self._model, self._tools)
        return self._engine

    def _own_portal(self) -> Portal:
        if self._portal is None or not self._portal.is_usable:
            self._portal = Portal()
        return self._portal


class RunStream:
    """A run as a stream of events: iterate over it, or enter it with `async with` first."""

    def __init__(
        self,
        agent: Agent,
        prompt: Prompt,
        run_id: str | None,
        ids: RunIds,
        *,
        on_memory_error: OnMemoryError,
        save_partial: bool = False,
        raise_on_tripwire: bool = False,
        chunked: bool = True,
    ) -> None:
        """Prepare the run; it starts with the first event that is asked for."""
        if on_memory_error not in ("return", "raise"):
            raise InvalidArgumentError(
                "on_memory_error", f"must be 'return' or 'raise', not {on_memory_error!r:.60}"
            )
        options = {"on_memory_error": on_memory_error, "save_partial": save_partial, "chunked": chunked}
        self._run = agent.start(prompt, run_id, ids, options)
        self._raise_on_tripwire = raise_on_tripwire
        self._events = self._all_events()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Go through the events."""
        return self._events

    async def next_event(self) -> Event | None:
        """Return the next event, or None at the end."""
        return await anext(self._events, None)

    async def result(self) -> Result:
        """Run to the end and return the result."""
        final: Result | None = None
        async for event in self._events:
            final = event.result or final
        return final or self._run.result

    async def aclose(self) -> None:
        """Leave the run: what was not committed is not saved, unless `save_partial` was asked for."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the run."""
        await self.aclose()

    async def _all_events(self) -> AsyncGenerator[Event]:
        async with aclosing(self._run.events()) as events:
            async for event in events:
                yield event
                if event.type == "tripwire" and self._raise_on_tripwire and event.tripwire is not None:
                    raise event.tripwire


class SyncStream:
    """A stream for sync code: one task runs it, one event at a time, as the events are asked for."""

    def __init__(self, portal: Portal, stream: RunStream) -> None:
        """Prepare the stream; it starts with the first event that is asked for."""
        self._portal = portal
        self._stream = stream
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[Event]:
        """Go through the events; leaving early leaves the run."""
        wanted = self._portal.run(_new_semaphore())
        task = self._portal.start(self._serve(wanted))
        try:
            while True:
                self._portal.call(wanted.release)
                event = self._events.get()
                if event is None:
                    return
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            task.cancel()
            concurrent.futures.wait([task])

    async def _serve(self, wanted: asyncio.Semaphore) -> None:
        try:
            async with self._stream as events:
                await wanted.acquire()
                async for event in events:
                    self._events.put(event)
                    await wanted.acquire()
            self._events.put(None)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever iterates
            self._events.put(error)


async def _new_semaphore() -> asyncio.Semaphore:
    return asyncio.Semaphore(0)


def _checked_run_id(run_id: str) -> str:
    check_text(run_id, "run_id", max_bytes=400)  # the ids of its messages are longer by a suffix
    return check_id(run_id, "run_id")


def _prompt_messages(prompt: object, run_id: str) -> list[Message]:
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    elif isinstance(prompt, Message):
        prompt = [prompt]
    if not isinstance(prompt, Sequence):
        raise InvalidArgumentError("prompt", f"must be text, a message or a list of them, not {prompt!r:.60}")
    items = cast("Sequence[object]", prompt)
    messages = [_prompt_message(item, f"{run_id}:prompt.{place:04d}") for place, item in enumerate(items)]
    if not any(message.parts for message in messages):
        raise InvalidArgumentError("prompt", "must not be empty")
    if len({message.id for message in messages}) != len(messages):
        raise InvalidArgumentError("prompt", "two of its messages have the same id")
    return messages


def _prompt_message(item: object, made_id: str) -> Message:
    if isinstance(item, Message):
        return item.replace(origin="input")
    if not isinstance(item, Mapping):
        raise InvalidArgumentError("prompt", f"holds a {type(item).__name__}; use Message values or dicts")
    values: dict[str, Any] = dict(cast("Mapping[str, Any]", item))
    if unknown := values.keys() - {"role", "content", "id", "metadata", "created_at"}:
        raise InvalidArgumentError("prompt", f"{min(unknown)!r} is not a field of a message")
    if "role" not in values:
        raise InvalidArgumentError("prompt", "holds a dict without 'role'")
    made: dict[str, Any] = {"id": made_id, "origin": "input"}
    return Message(**(made | values))
