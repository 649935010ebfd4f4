"""The agent: a model, tools, and one pipeline of guards and memory around them."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, Unpack, cast

from recollect.agent.prompt import Prompt, check_run_id, get_last_shown, note_shown, parse_prompt
from recollect.agent.result import Event, Result
from recollect.agent.run import AgentRun, OnMemoryError, RunSettings
from recollect.agent.stream import RunStream, SyncStream
from recollect.concurrency.sync_face import ClosingFace, PortalHolder, as_twin, sync_method
from recollect.errors import InvalidArgumentError, requires_extra
from recollect.memory.memory import Memory
from recollect.messages import Message, new_message_id
from recollect.pipeline.assembly import Item, Provider, expand_providers, warn_if_unsaved
from recollect.pipeline.context import Ids, RunIds, RunState, parse_run_ids
from recollect.pipeline.processor import InputProvider, OutputProvider, Processor, ToolProvider
from recollect.pipeline.run import PipelineRun
from recollect.trace import Trace
from recollect.validation import check_int, check_model, check_text

if TYPE_CHECKING:
    from recollect.agent.provider import ModelProvider

P = ParamSpec("P")

_DEFAULT_MAX_STEPS = 20
_PROVIDER_MODULE = "recollect.agent.provider"


class Agent:
    """A model with memory and guards.

    Processors run in the order given; a provider is replaced by its processors. `memory` runs after the
    guards on both sides. One agent serves many runs at once.
    """

    def __init__(  # noqa: PLR0913 - one for each part, all but the model by keyword
        self,
        model: object = "offline",
        *,
        instructions: str = "",
        tools: Sequence[Callable[..., object]] = (),
        memory: Memory | Provider | None = None,
        input_processors: Sequence[Item] = (),
        output_processors: Sequence[Item] = (),
        max_steps: int = _DEFAULT_MAX_STEPS,
        limit_answer: str = "",
        trace_content: bool = False,
    ) -> None:
        """Build the pipeline; mistakes in the lists raise now, not at the first run.

        The model's name and the tools' arguments are checked at the first run, because that needs the extra
        `agent`. `max_steps` is the maximum number of requests to the model in one run. `limit_answer` is the
        answer if the model still calls tools then. `trace_content` puts message text into OpenTelemetry
        spans.
        """
        self._model = check_model(model, "model", "a name, a Pydantic AI model or 'offline'")
        self._instructions = check_text(instructions, "instructions")
        provider = _check_memory(memory)
        self._input_side = expand_providers(input_processors, "input", provider)
        self._output_side = expand_providers(output_processors, "output", provider)
        warn_if_unsaved(input_processors, self._output_side)
        # Memory writes on the output side, so its tools are of use only there.
        owners = [processor for processor in self._output_side if isinstance(processor, ToolProvider)]
        self._tools = (*_check_tools(tools), *(tool for owner in owners for tool in owner.get_tools()))
        self._max_steps = check_int(max_steps, "max_steps", minimum=1)
        self._limit_answer = check_text(limit_answer, "limit_answer")
        self._trace_content = trace_content
        self._provider: ModelProvider | None = None
        given = (memory, *input_processors, *output_processors)
        self._memories = [*{id(item): item for item in given if isinstance(item, Memory)}.values()]
        # A store in memory belongs to one event loop: the one that `memory.sync` uses.
        self.portals = self._memories[0].portals if self._memories else PortalHolder("agent")

    async def generate(
        self,
        prompt: Prompt,
        *,
        run_id: str | None = None,
        raise_on_tripwire: bool = False,
        on_memory_error: OnMemoryError = "return",
        context: Mapping[str, object] | None = None,
        **ids: Unpack[Ids],
    ) -> Result:
        """Answer a prompt and return the result; a trip is in `result.tripwire`, or raised on request.

        `context` is for the run's processors, which read it as `ctx.context`.
        """
        if self._provider is None:
            parse_prompt(prompt, "run")  # a mistake in it is raised before the model is loaded
            await self._load_provider()
        run = self._new_run(
            prompt,
            run_id,
            parse_run_ids(ids),
            on_memory_error=on_memory_error,
            context=context,
            chunked=False,
        )
        result = await run.run_to_end()
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
        save_partial: bool = True,
        context: Mapping[str, object] | None = None,
        **ids: Unpack[Ids],
    ) -> RunStream:
        """Answer a prompt as a stream of events; with `async with`, leaving early also ends the run.

        If the reader leaves early or is cancelled, memory keeps the prompt and what the reader has received,
        marked as aborted; with `save_partial=False` it keeps nothing.
        """
        run = self._new_run(
            prompt,
            run_id,
            parse_run_ids(ids),
            on_memory_error=on_memory_error,
            context=context,
            save_partial=save_partial,
        )
        return RunStream(run, raise_on_tripwire=raise_on_tripwire, note=partial(note_shown, self))

    async def prepare(self) -> None:
        """Load now what the first run would load: the model layer, the store and the built-in embedder.

        Call it when a service starts, on the event loop that serves.
        """
        await self._load_provider()
        for memory in self._memories:
            await memory.prepare()

    def get_last_messages(self) -> list[Message]:
        """Return the last prompt that the model was shown in this task."""
        return get_last_shown(self)

    async def close(self) -> None:
        """Close the agent's memory, unless an `async with` block of it is running."""
        for memory in self._memories:
            if not memory.is_entered:
                await memory.close()

    async def __aenter__(self) -> Self:
        """Enter the agent's memory too: it stays open until the last `async with` block ends."""
        async with AsyncExitStack() as entered:
            for memory in self._memories:
                await entered.enter_async_context(memory)
            entered.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        for memory in self._memories:
            await memory.__aexit__()

    @property
    def sync(self) -> "SyncAgent":
        """The same methods for sync code."""
        return SyncAgent(self, self.portals)

    def _new_run(
        self,
        prompt: Prompt,
        run_id: str | None,
        ids: RunIds,
        *,
        on_memory_error: OnMemoryError,
        context: Mapping[str, object] | None,
        save_partial: bool = False,
        chunked: bool = True,
    ) -> AgentRun:
        """Check a call and prepare its run; no model or store is used yet."""
        if on_memory_error not in ("return", "raise"):
            raise InvalidArgumentError(
                "on_memory_error", f"must be 'return' or 'raise', not {on_memory_error!r:.60}"
            )
        name = new_message_id() if run_id is None else check_run_id(run_id)
        messages = parse_prompt(prompt, name)
        if self._is_quick_to_load:
            self._get_provider()  # what is wrong with the model or a tool is raised now
        settings = RunSettings(
            load_provider=self._load_provider,
            instructions=self._instructions,
            max_steps=self._max_steps,
            limit_answer=self._limit_answer,
            trace_content=self._trace_content,
            chunked=chunked,
            save_partial=save_partial,
            on_memory_error=on_memory_error,
            note_shown=partial(note_shown, self),
            may_be_stored=run_id is not None,
        )
        state = RunState(name, ids, Trace(), self._instructions, context=_check_context(context))
        return AgentRun(settings, PipelineRun(self._input_side, self._output_side, state), messages)

    @property
    def _is_quick_to_load(self) -> bool:
        return self._provider is not None or (
            _PROVIDER_MODULE in sys.modules and not isinstance(self._model, str)
        )

    async def _load_provider(self) -> "ModelProvider":
        """Make the provider; the imports that it needs take a second, so others go on meanwhile."""
        if self._is_quick_to_load:
            return self._get_provider()
        return await asyncio.to_thread(self._get_provider)

    def _get_provider(self) -> "ModelProvider":
        if self._provider is None:
            with requires_extra("agent"):
                from recollect.agent.provider import ModelProvider
            made = ModelProvider(self._model, self._tools)
            self._provider = self._provider or made  # another thread may have been faster
        return self._provider


def _make_generate(
    method: Callable[Concatenate[Agent, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate["SyncAgent", P], Result]:
    """Return `generate` for sync code; it also copies what was shown out of the portal's context."""

    async def answer(
        agent: Agent, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Result | Exception, list[Message]]:
        try:
            return await method(agent, *args, **kwargs), get_last_shown(agent)
        except Exception as error:  # noqa: BLE001 - it is raised in the caller's thread
            return error, get_last_shown(agent)

    def call(face: "SyncAgent", *args: P.args, **kwargs: P.kwargs) -> Result:
        result, shown = face.call(answer, *args, **kwargs)
        face.note(shown)
        if isinstance(result, Exception):
            raise result
        return result

    return as_twin(call, method)


def _make_stream(
    method: Callable[Concatenate[Agent, P], RunStream],
) -> Callable[Concatenate["SyncAgent", P], Iterator[Event]]:
    """Return `stream` for sync code."""

    def call(face: "SyncAgent", *args: P.args, **kwargs: P.kwargs) -> Iterator[Event]:
        return face.events_of(method, *args, **kwargs)

    return as_twin(call, method)


class SyncAgent(ClosingFace[Agent]):
    """The methods of `Agent` for sync code: `agent.sync`."""

    generate = _make_generate(Agent.generate)
    stream = _make_stream(Agent.stream)
    prepare = sync_method(Agent.prepare)

    def get_last_messages(self) -> list[Message]:
        """Return the last prompt that the model was shown in this task."""
        return get_last_shown(self._subject)

    def note(self, shown: list[Message]) -> None:
        """Remember in the caller's task what the model was shown."""
        note_shown(self._subject, shown)

    def events_of(
        self, method: Callable[Concatenate[Agent, P], RunStream], *args: P.args, **kwargs: P.kwargs
    ) -> Iterator[Event]:
        """Yield the events of a stream."""
        stream = method(self._subject, *args, **kwargs)
        try:
            for event in SyncStream(self._portals.get(), stream):
                self.note(stream.prompt)
                yield event
        finally:
            self.note(stream.prompt)


def _check_tools(tools: object) -> tuple[Callable[..., object], ...]:
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise InvalidArgumentError("tools", f"must be a list of functions, not {tools!r:.60}")
    for tool in cast("Sequence[object]", tools):
        if not callable(tool):
            raise InvalidArgumentError("tools", f"{tool!r:.60} is not a function")
    return tuple(cast("Sequence[Callable[..., object]]", tools))


def _check_context(context: object) -> dict[str, object]:
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise InvalidArgumentError("context", f"must be a dict, not {context!r:.60}")
    return dict(cast("Mapping[str, object]", context))


def _check_memory(memory: object) -> Provider | None:
    """Return the value of `memory=`; common mistakes raise with advice."""
    if memory is None:
        return None
    if isinstance(memory, str):
        raise InvalidArgumentError("memory", "is a URL or path; use a Memory: memory=Memory(url)")
    if isinstance(memory, type):
        raise InvalidArgumentError("memory", f"is a class; use a Memory: memory={memory.__name__}()")
    if isinstance(memory, Processor):
        raise InvalidArgumentError(
            "memory", "is a processor; use a Memory, and put processors into the lists"
        )
    if not isinstance(memory, InputProvider | OutputProvider):
        raise InvalidArgumentError("memory", f"is a {type(memory).__name__}; use a Memory")
    return memory
