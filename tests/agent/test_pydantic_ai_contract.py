"""What we rely on in Pydantic AI's model layer, so that an upgrade that changes it is seen."""

import ast
import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai import Embedder, direct
from pydantic_ai import messages as pa
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import Tool
from tests.support.syntax import parsed

import recollect
from recollect.concurrency.http_clients import share_between_loops

pytestmark = pytest.mark.anyio

SOURCE = Path(recollect.__file__).parent
REQUEST: list[pa.ModelMessage] = [pa.ModelRequest(parts=[pa.UserPromptPart("hi")])]


class OwnError(Exception):
    """An error that Pydantic AI has never heard of."""


class Script:
    """A model function that yields its script, and records what it was shown and whether it was closed."""

    def __init__(self, *parts: str | DeltaToolCalls | Exception) -> None:
        """Take the parts."""
        self._pieces = parts
        self.shown: list[list[pa.ModelMessage]] = []
        self.info: list[AgentInfo] = []
        self.closed = 0

    async def __call__(
        self, messages: list[pa.ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        """Answer."""
        self.shown.append(messages)
        self.info.append(info)
        try:
            for part in self._pieces:
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.closed += 1


def model_of(script: Script) -> FunctionModel:
    """Return a model that streams a script."""
    return FunctionModel(stream_function=script)


@pytest.mark.parametrize("parts", [[OwnError("mine")], ["text", OwnError("mine")]])
async def test_own_exception_comes_out_unchanged(parts: list[str | Exception]) -> None:
    """An error of a model or of the code around it is not wrapped, before the first part and after it."""
    with pytest.raises(OwnError, match="mine"):
        await _consumed(Script(*parts))


async def test_own_exception_of_the_consumer_comes_out_unchanged() -> None:
    """What is raised inside the block leaves it as it is, and the answer is closed."""
    script = Script("one", "two")
    with pytest.raises(OwnError, match="mine"):
        await _consumed(script, OwnError("mine"))
    assert script.closed == 1


async def test_answer_is_closed_when_the_block_is_left_early() -> None:
    """Leaving `async with` ends the model's answer at once."""
    script = Script("one", "two", "three")
    async with direct.model_request_stream(model_of(script), REQUEST) as stream:
        async for _ in stream:
            break
    assert script.closed == 1


async def test_tool_calls_are_complete_when_the_stream_has_ended() -> None:
    """Parts of several calls' arguments are whole in the response, with their ids, after the text."""
    script = Script(
        "see ",
        {0: DeltaToolCall("add", '{"a": ', tool_call_id="c0")},
        {0: DeltaToolCall(json_args="1}")},
        {1: DeltaToolCall("add", '{"a": 2}', tool_call_id="c1")},
    )
    async with direct.model_request_stream(model_of(script), REQUEST) as stream:
        async for _ in stream:
            pass
        response = stream.get()
    calls = [part for part in response.parts if isinstance(part, pa.ToolCallPart)]
    assert [(call.tool_call_id, call.args_as_dict()) for call in calls] == [
        ("c0", {"a": 1}),
        ("c1", {"a": 2}),
    ]
    assert isinstance(response.parts[0], pa.TextPart)


async def test_no_tool_is_run_by_a_request() -> None:
    """A request describes tools to the model and never calls them, whatever the model answers."""
    ran: list[str] = []

    def note(word: str) -> None:
        """Note a word."""
        ran.append(word)

    tool = Tool(note, takes_ctx=False)
    script = Script({0: DeltaToolCall("note", '{"word": "x"}', tool_call_id="c")})
    parameters = ModelRequestParameters(function_tools=[tool.tool_def])
    async with direct.model_request_stream(
        model_of(script), REQUEST, model_request_parameters=parameters
    ) as stream:
        async for _ in stream:
            pass
    assert ran == []
    assert len(script.shown) == 1
    assert [tool.name for tool in script.info[0].function_tools] == ["note"]


async def test_messages_reach_the_model_as_they_are_given() -> None:
    """Nothing is added to or taken from the list, and it is not changed in place."""
    given: list[pa.ModelMessage] = [
        pa.ModelRequest(parts=[pa.UserPromptPart("one")]),
        pa.ModelResponse(parts=[pa.TextPart("two")]),
        pa.ModelRequest(parts=[pa.UserPromptPart("three")], instructions="be brief"),
    ]
    copy = [repr(message) for message in given]
    script = Script("ok")
    async with direct.model_request_stream(model_of(script), given) as stream:
        async for _ in stream:
            pass
    shown = script.shown[0]
    assert [[part.part_kind for part in message.parts] for message in shown] == [
        ["user-prompt"],
        ["text"],
        ["user-prompt"],
    ]
    assert [repr(message) for message in given] == copy
    assert [m.instructions for m in shown if isinstance(m, pa.ModelRequest)].count("be brief") == 1


async def test_text_of_the_events_is_the_text_of_the_response() -> None:
    """The first chunk comes with the start of the part and the others as deltas: together they are all."""
    texts: list[str] = []
    async with direct.model_request_stream(model_of(Script("one ", "two ", "three")), REQUEST) as stream:
        async for event in stream:
            if isinstance(event, pa.PartStartEvent) and isinstance(event.part, pa.TextPart):
                texts.append(event.part.content)
            if isinstance(event, pa.PartDeltaEvent) and isinstance(event.delta, pa.TextPartDelta):
                texts.append(event.delta.content_delta)
        response = stream.get()
    assert texts == ["one ", "two ", "three"]
    assert [part.content for part in response.parts if isinstance(part, pa.TextPart)] == ["one two three"]


async def test_tool_schema_validates_and_calls_a_plain_function() -> None:
    """A tool's schema checks arguments in lax mode and runs sync functions without a run of an agent."""

    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    schema = Tool(add, takes_ctx=False).function_schema
    arguments = schema.validator.validate_python({"a": "2"})
    assert await schema.call(arguments, None) == 3  # pyright: ignore[reportArgumentType] - no context is taken


def test_model_request_stream_takes_what_we_give_it() -> None:
    """The parameters that the engine names exist."""
    parameters = inspect.signature(direct.model_request_stream).parameters
    assert {"model", "messages", "model_request_parameters"} <= parameters.keys()


def test_run_stream_is_used_nowhere() -> None:
    """`run_stream` of Pydantic AI releases what hooks have redacted: no code of ours names it."""
    assert not [path for path, name in _names_in_source() if name == "run_stream"]


def test_pydantic_ai_is_imported_by_the_provider_alone() -> None:
    """One file knows Pydantic AI."""
    importing = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(parsed(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pydantic_ai"))
        or (isinstance(node, ast.Import) and any(name.name.startswith("pydantic_ai") for name in node.names))
    }
    assert importing == {"agent/asking.py", "agent/provider.py"}


async def _consumed(script: Script, error: Exception | None = None) -> None:
    async with direct.model_request_stream(model_of(script), REQUEST) as stream:
        async for _ in stream:
            if error is not None:
                raise error


def _names_in_source() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(parsed(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.append((str(path), node.attr))
            elif isinstance(node, ast.Name):
                found.append((str(path), node.id))
    assert found
    return found


def test_provider_has_one_client_that_can_be_replaced() -> None:
    """These private names let a model be asked from several event loops; `http_clients` uses them."""
    provider = OpenAIProvider(base_url="http://127.0.0.1:9", api_key="none")
    for name in ("_own_http_client", "_http_client_factory", "_own_client_loop", "_set_http_client"):
        assert hasattr(provider, name)
    assert hasattr(Model, "_refresh_http_client")
    assert hasattr(provider, "_refresh_http_client")
    embedder = Embedder(OpenAIEmbeddingModel("tiny", provider=provider))
    assert getattr(getattr(embedder, "_get_model")(), "_provider") is provider  # noqa: B009 - private names
    share_between_loops(OpenAIChatModel("tiny", provider=provider))
    assert getattr(provider.client, "_client") is getattr(provider, "_own_http_client")  # noqa: B009 - private names
