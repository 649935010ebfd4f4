"""Pydantic AI's models, providers and tool schemas; only this file and `asking.py` import it.

We use only its model layer (`pydantic_ai.direct`), one request at a time. Its agent loop runs tools and keeps
history by itself, without our guards, and some of its hooks released text that another had redacted. So the
loop is ours (`run.py`), and the model is shown exactly our list of messages.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic_ai import Embedder, direct, exceptions
from pydantic_ai import messages as pa
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.tools import Tool

from recollect.agent.asking import MODEL_FAULTS, ask_local_model, ask_model
from recollect.agent.models import LocalModel, ModelPart, OfflineModel, StepEnd
from recollect.agent.result import Usage
from recollect.agent.tools import BrokenCall, RunnableTool, run_tool
from recollect.concurrency.http_clients import refresh_client, share_between_loops
from recollect.errors import InvalidArgumentError, ModelError, ModelUnavailableError
from recollect.messages import (
    FilePart,
    Message,
    TextPart,
    ToolCall,
    ToolResult,
    clean_json,
    clean_text,
    new_message_id,
)
from recollect.pipeline.context import Ask, RunState
from recollect.tool_pairs import pair_calls
from recollect.validation import MAX_ID_BYTES, MAX_TEXT_BYTES, check_json, encode_json

T = TypeVar("T")

_NO_CONTEXT = cast("Any", None)  # tools of Pydantic AI's own agents take its context; ours take none

_MAX_CALL_BYTES = MAX_TEXT_BYTES // 4  # a message has text and several calls
_MAX_BROKEN_LENGTH = 100_000


class ModelProvider:
    """A model with tools."""

    def __init__(self, model: object, tools: Sequence[Callable[..., object]]) -> None:
        """Resolve the model and describe the tools; no request is sent yet."""
        self._model = resolve_model(model)
        self._tools = _index_by_name([_make_tool(function) for function in tools])
        self._runnable = {name: _make_runnable(tool) for name, tool in self._tools.items()}
        self._parameters = ModelRequestParameters(
            function_tools=[tool.tool_def for tool in self._tools.values()]
        )

    def step(
        self, messages: Sequence[Message], instructions: str, said: Mapping[str, object]
    ) -> AsyncGenerator[ModelPart]:
        """Send one request; yield the model's text as it comes, then its tool calls, then the end.

        `said` has the provider's own responses of earlier steps of this run, by message id.
        """
        if isinstance(self._model, Model):
            request = to_model_messages(messages, instructions, said)
            return _request(self._model, request, self._parameters)
        return _respond(self._model, messages)

    async def run_tool(self, call: ToolCall, run: RunState) -> ToolResult:
        """Run the tool of a call; any failure becomes an error result for the model."""
        return await run_tool(self._runnable, call, run)

    def count_into(self, usage: Usage) -> Ask:
        """Return `ask` for the processors of one run; its requests and tokens are added to the run's."""

        async def ask(prompt: str, output_type: type[T], *, model: object | None = None) -> T:
            chosen = self._model if model is None else resolve_model(model)
            if isinstance(chosen, Model):
                return await ask_model(chosen, prompt, output_type, usage)
            return await ask_local_model(chosen, prompt, output_type, usage)

        return ask


async def _request(
    model: Model, request: list[pa.ModelMessage], parameters: ModelRequestParameters
) -> AsyncGenerator[ModelPart]:
    try:
        refresh_client(model)
        async with direct.model_request_stream(model, request, model_request_parameters=parameters) as stream:
            async for event in stream:
                if text := _get_text(event):
                    yield clean_text(text)
            response = stream.get()
    except MODEL_FAULTS as error:
        raise ModelError(f"the model failed: {error}") from error
    is_as_said = True
    for part in response.parts:
        if isinstance(part, pa.ToolCallPart):
            call = _parse_call(part)
            is_as_said = is_as_said and (call.id, call.name) == (part.tool_call_id, part.tool_name)
            yield call
    usage = Usage(1, response.usage.input_tokens, response.usage.output_tokens)
    yield StepEnd(usage, response.finish_reason, response if is_as_said else None)


async def _respond(model: LocalModel, messages: Sequence[Message]) -> AsyncGenerator[ModelPart]:
    """Let a local model answer; its calls come after its text, as with any other model."""
    calls: list[ToolCall] = []
    parts = cast("object", model.respond(messages))
    if not isinstance(parts, AsyncIterable):
        raise ModelError(f"respond of the model returned a {type(parts).__name__}; write an async generator")
    try:
        async for part in cast("AsyncIterable[object]", parts):
            if isinstance(part, str):
                if part:
                    yield clean_text(part)
            elif isinstance(part, ToolCall):
                calls.append(_make_storable(part))
            else:
                raise ModelError(f"the model yielded a {type(part).__name__}; yield str and ToolCall values")
    finally:
        if isinstance(parts, AsyncGenerator):  # it must be closed when the run ends
            await parts.aclose()
    for call in calls:
        yield call
    yield StepEnd(Usage(1))


def resolve_model(model: object) -> Model | LocalModel:
    """Return the model that a caller named or gave."""
    if model == "offline":
        return OfflineModel()
    if isinstance(model, Model | LocalModel):
        found = cast("Model | LocalModel", model)
        if isinstance(found, Model):
            share_between_loops(found)
        return found
    if not isinstance(model, str):
        raise InvalidArgumentError(
            "model", f"must be a name, a Pydantic AI model or 'offline', not {model!r:.60}"
        )
    try:
        return resolve_model(infer_model(model))
    except (exceptions.UserError, ImportError, ValueError) as error:
        raise ModelUnavailableError(f"{error} (or use model='offline', which needs nothing)") from error


def find_embedder(name: str) -> object:
    """Return the embedder of a provider by its name, such as openai:text-embedding-3-small."""
    try:
        return Embedder(name)
    except (exceptions.UserError, ImportError, ValueError) as error:
        raise ModelUnavailableError(
            f"{error} (or leave the embedder out: the built-in one needs nothing)"
        ) from error


def _index_by_name(tools: Sequence[Tool[None]]) -> dict[str, Tool[None]]:
    found: dict[str, Tool[None]] = {}
    for tool in tools:
        if tool.name in found:
            raise InvalidArgumentError("tools", f"two tools are called {tool.name!r}; rename one")
        if not tool.name.isidentifier():
            raise InvalidArgumentError(
                "tools", f"{tool.name!r} is not a valid name of a tool; use a named function"
            )
        found[tool.name] = tool
    return found


def _make_tool(function: Callable[..., object]) -> Tool[None]:
    if not callable(function):
        raise InvalidArgumentError("tools", f"{function!r:.60} is not a function")
    try:
        return Tool(function, takes_ctx=False)
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        raise InvalidArgumentError(
            "tools", f"the arguments of {name} cannot be described: {error}"
        ) from error


def _make_runnable(tool: Tool[None]) -> RunnableTool:
    schema = tool.function_schema
    return RunnableTool(
        schema.validator.validate_python, lambda arguments: schema.call(arguments, _NO_CONTEXT)
    )


def _get_text(event: object) -> str:
    if isinstance(event, pa.PartDeltaEvent):
        return event.delta.content_delta if isinstance(event.delta, pa.TextPartDelta) else ""
    if isinstance(event, pa.PartStartEvent) and isinstance(event.part, pa.TextPart):
        return event.part.content
    return ""


def _parse_call(part: pa.ToolCallPart) -> ToolCall:
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return _make_broken_call(part.tool_call_id, part.tool_name, part.args_as_json_str())
    return _make_storable(ToolCall(part.tool_call_id, part.tool_name, arguments))


def _make_storable(call: ToolCall) -> ToolCall:
    """Return a call that can be stored, with its name and id trimmed or made up if necessary."""
    try:
        arguments = cast("dict[str, object]", clean_json(dict(call.arguments)))
        check_json(arguments, "arguments")
        encode_json(arguments, "arguments", max_bytes=_MAX_CALL_BYTES)
    except (ValueError, TypeError):
        return _make_broken_call(call.id, call.name, _show(call.arguments))
    return ToolCall(_trim_id(call.id) or new_message_id(), _trim_id(call.name) or "unnamed", arguments)


def _show(arguments: object) -> str:
    try:
        return repr(arguments)
    except Exception:  # noqa: BLE001 - such as an int with too many digits
        return "(arguments that cannot be shown)"


def _make_broken_call(call_id: str, name: str, arguments: str) -> BrokenCall:
    return BrokenCall(
        _trim_id(call_id) or new_message_id(),
        _trim_id(name) or "unnamed",
        {"invalid_json": clean_text(arguments[:_MAX_BROKEN_LENGTH])},
    )


def _trim_id(text: str) -> str:
    return clean_text(text).encode()[:MAX_ID_BYTES].decode(errors="ignore")


def to_model_messages(
    messages: Sequence[Message], instructions: str, said: Mapping[str, object]
) -> list[pa.ModelMessage]:
    """Convert messages to Pydantic AI's, without tool calls and results that lack each other.

    Instructions are the first system prompt. As `ModelRequest.instructions`, most providers' mappings would
    put them after all others.
    """
    paired = _find_pairs(messages)
    out: list[pa.ModelMessage] = []
    if instructions:
        out.append(pa.ModelRequest(parts=[pa.SystemPromptPart(instructions)]))
    for message in messages:
        if message.role == "assistant":
            is_answered = all((message.id, call.id) in paired for call in message.tool_calls)
            response = (is_answered and said.get(message.id)) or _to_response(message, paired)
            if response is not None:
                out.append(cast("pa.ModelResponse", response))
        elif parts := _to_request_parts(message, paired):
            if out and isinstance(out[-1], pa.ModelRequest):
                parts = [*out.pop().parts, *parts]
            out.append(pa.ModelRequest(parts=cast("list[pa.ModelRequestPart]", parts)))
    if not out or not isinstance(out[-1], pa.ModelRequest):
        out.append(pa.ModelRequest(parts=[]))
    return out


def _find_pairs(messages: Sequence[Message]) -> set[tuple[str, str]]:
    """Return the calls and results that belong together, as (message id, call id)."""
    return {
        (messages[index].id, pair.call.id)
        for pair in pair_calls(messages)
        for index in (pair.call_index, pair.result_index)
    }


def _to_response(message: Message, paired: set[tuple[str, str]]) -> pa.ModelResponse | None:
    parts: list[pa.ModelResponsePart] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            parts.append(pa.TextPart(part.text))
        elif isinstance(part, ToolCall) and (message.id, part.id) in paired:
            parts.append(pa.ToolCallPart(part.name, dict(part.arguments), part.id))
    return pa.ModelResponse(parts=parts) if parts else None


def _to_request_parts(message: Message, paired: set[tuple[str, str]]) -> list[Any]:
    if message.role == "tool":
        return [
            pa.ToolReturnPart(result.name, result.content, result.call_id)
            for result in message.tool_results
            if (message.id, result.call_id) in paired
        ]
    if message.role == "system" and message.origin != "memory":
        return [pa.SystemPromptPart(message.text)]
    files = [_to_file(part) for part in message.parts if isinstance(part, FilePart)]
    content: Any = [message.text, *files] if files else message.text
    return [pa.UserPromptPart(content)]


def _to_file(part: FilePart) -> object:
    if part.data is not None:
        return pa.BinaryContent.from_data_uri(f"data:{part.media_type};base64,{part.data}")
    if part.media_type.startswith("image/"):
        return pa.ImageUrl(str(part.url))
    return pa.DocumentUrl(str(part.url), media_type=part.media_type)
