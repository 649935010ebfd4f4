"""The agent: a model, tools, and one pipeline of guards and memory around them."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from recollect.agent.prompt import Prompt, check_run_id, last_shown, note_shown, prompt_messages
from recollect.agent.result import Event, Result
from recollect.agent.run import AgentRun, OnMemoryError, Plan
from recollect.agent.stream import RunStream, SyncStream
from recollect.concurrency.fork import PerProcess
from recollect.concurrency.portal import Portal
from recollect.errors import InvalidArgumentError, requires_extra
from recollect.memory.memory import Memory
from recollect.messages import Message, new_message_id
from recollect.pipeline.assembly import Item, expand_providers
from recollect.pipeline.context import Ids, RunIds, RunState, run_ids
from recollect.pipeline.processor import Processor, ProcessorProvider, ToolProvider
from recollect.pipeline.run import PipelineRun
from recollect.trace import Trace
from recollect.validation import check_int, check_model, check_text

if TYPE_CHECKING:
    from recollect.agent.provider import ModelProvider

_MOST_STEPS = 20


class Agent:
    """A model that remembers, behind guards.

    Processors run in the order given, each provider replaced by its own. `memory` goes behind the guards on
    both sides. One agent serves many runs at once.
    """

    def __init__(  # noqa: PLR0913 - one for each part, all but the model by keyword
        self,
        model: object = "offline",
        *,
        instructions: str = "",
        tools: Sequence[Callable[..., object]] = (),
        memory: Memory | ProcessorProvider | None = None,
        input_processors: Sequence[Item] = (),
        output_processors: Sequence[Item] = (),
        max_steps: int = _MOST_STEPS,
        limit_answer: str = "",
        trace_content: bool = False,
    ) -> None:
        """Put the pipeline together; what is wrong with it is said now, not at the first run.

        A model's name and the arguments of tools are looked into at the first run, before anything is
        asked: that takes the extra `agent`, which an agent can be made without. `max_steps` is how often the
        model may be asked in one run, and `limit_answer` what is answered when it still wants tools then.
        `trace_content` puts message text into OpenTelemetry spans.
        """
        self._model = check_model(model, "model", "a name, a Pydantic AI model or 'offline'")
        self._instructions = check_text(instructions, "instructions")
        provider = _checked_memory(memory)
        self._input_side = expand_providers(input_processors, "input", provider)
        self._output_side = expand_providers(output_processors, "output", provider)
        # Only there does memory write, so only there are its tools of any use.
        owners = [processor for processor in self._output_side if isinstance(processor, ToolProvider)]
        self._tools = (*_checked_tools(tools), *(tool for owner in owners for tool in owner.get_tools()))
        self._max_steps = check_int(max_steps, "max_steps", minimum=1)
        self._limit_answer = check_text(limit_answer, "limit_answer")
        self._trace_content = trace_content
        self._provider: ModelProvider | None = None
        self._portal: Portal | None = None
        self._lock = PerProcess(threading.Lock)

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
        """Answer a prompt and return the result; a trip is `result.tripwire` unless it is to be raised.

        `context` is for the run's processors, which find it as `ctx.context`.
        """
        run = self._new_run(
            prompt, run_id, run_ids(ids), on_memory_error=on_memory_error, context=context, chunked=False
        )
        result = await run.to_end()
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
        context: Mapping[str, object] | None = None,
        **ids: Unpack[Ids],
    ) -> RunStream:
        """Answer a prompt as a stream of events; use `async with` to leave early without loose ends."""
        run = self._new_run(
            prompt,
            run_id,
            run_ids(ids),
            on_memory_error=on_memory_error,
            context=context,
            save_partial=save_partial,
        )
        return RunStream(run, raise_on_tripwire=raise_on_tripwire, note=partial(note_shown, self))

    def generate_sync(self, prompt: Prompt, **options: Any) -> Result:  # noqa: ANN401 - those of generate
        """Do the same as `generate` from sync code."""
        result, shown = self._own_portal().run(self._generate_and_show(prompt, options))
        note_shown(self, shown)
        if isinstance(result, Exception):
            raise result
        return result

    def stream_sync(self, prompt: Prompt, **options: Any) -> Iterator[Event]:  # noqa: ANN401 - those of stream
        """Do the same as `stream` from sync code."""
        stream = self.stream(prompt, **options)
        try:
            for event in SyncStream(self._own_portal(), stream):
                note_shown(self, stream.prompt)
                yield event
        finally:
            note_shown(self, stream.prompt)

    def get_last_messages(self) -> list[Message]:
        """Return what the model was last shown in this task; a run that did not reach it changes nothing."""
        return last_shown(self)

    def close(self) -> None:
        """End the thread that the sync methods run in; a later call starts another."""
        with self._lock.value:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.close()

    async def _generate_and_show(
        self, prompt: Prompt, options: dict[str, Any]
    ) -> tuple[Result | Exception, list[Message]]:
        """Answer in the portal's thread, and bring back what was shown, which only that thread can see."""
        try:
            return await self.generate(prompt, **options), last_shown(self)
        except Exception as error:  # noqa: BLE001 - it is raised where it belongs
            return error, last_shown(self)

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
        """Check a call and prepare its run; nothing is asked or read yet."""
        if on_memory_error not in ("return", "raise"):
            raise InvalidArgumentError(
                "on_memory_error", f"must be 'return' or 'raise', not {on_memory_error!r:.60}"
            )
        name = new_message_id() if run_id is None else check_run_id(run_id)
        messages = prompt_messages(prompt, name)
        provider = self._get_provider()
        plan = Plan(
            provider=provider,
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
        state = RunState(
            name, ids, Trace(), self._instructions, provider.ask, context=_checked_context(context)
        )
        return AgentRun(plan, PipelineRun(self._input_side, self._output_side, state), messages)

    def _get_provider(self) -> "ModelProvider":
        if self._provider is None:
            with requires_extra("agent"):
                from recollect.agent.provider import ModelProvider
            self._provider = ModelProvider(self._model, self._tools)
        return self._provider

    def _own_portal(self) -> Portal:
        """Return the one thread of this agent; two would not share what is kept in memory."""
        with self._lock.value:
            if self._portal is None or not self._portal.is_usable:
                self._portal = Portal("agent", advice="call it again")
            return self._portal


def _checked_tools(tools: object) -> tuple[Callable[..., object], ...]:
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise InvalidArgumentError("tools", f"must be a list of functions, not {tools!r:.60}")
    for tool in cast("Sequence[object]", tools):
        if not callable(tool):
            raise InvalidArgumentError("tools", f"{tool!r:.60} is not a function")
    return tuple(cast("Sequence[Callable[..., object]]", tools))


def _checked_context(context: object) -> dict[str, object]:
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise InvalidArgumentError("context", f"must be a dict, not {context!r:.60}")
    return dict(cast("Mapping[str, object]", context))


def _checked_memory(memory: object) -> ProcessorProvider | None:
    """Return what is given as `memory=`, with advice for what is often given in its place."""
    if memory is None:
        return None
    if isinstance(memory, str):
        raise InvalidArgumentError("memory", "is an address; use a Memory: memory=Memory(url)")
    if isinstance(memory, type):
        raise InvalidArgumentError("memory", f"is a class; use a Memory: memory={memory.__name__}()")
    if isinstance(memory, Processor):
        raise InvalidArgumentError(
            "memory", "is a processor; use a Memory, and put processors into the lists"
        )
    if not isinstance(memory, ProcessorProvider):
        raise InvalidArgumentError("memory", f"is a {type(memory).__name__}; use a Memory")
    return memory
