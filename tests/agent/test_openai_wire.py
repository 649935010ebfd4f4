"""The real OpenAI provider of Pydantic AI, against a loopback server that speaks its wire format."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from threading import Event, Thread
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.agent.openai_server import ChatServer, Json, Say, chat_server
from tests.support.agents import ADA, Mode, answer, both_modes, events_of, streamed_text, texts
from tests.support.guards import SsnGuard
from tests.support.waiting import GENEROUS

from recollect import (
    Agent,
    FilePart,
    Memory,
    Message,
    ModelError,
    Processor,
    RunContext,
    TextPart,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.anyio

CALLS = Say(
    texts=["Let me ", "see."],
    calls=[("call_a", "add", ['{"a": 2', ', "b": 2}']), ("call_b", "add", ['{"a": 3, "b": 4}'])],
)
ANSWER = Say(texts=["They are ", "4 and ", "7."])
NAME = {"template": "name: {{name}}", "tool": True}
FINE = Say(texts=["You are ", "welcome."])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def agent_on(server: ChatServer, **options: Any) -> AsyncGenerator[Agent]:  # noqa: ANN401 - those of Agent
    """Return an agent whose model is the server."""
    async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        model = OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=client))
        yield Agent(model, tools=[add], instructions="Be brief.", **options)


def roles(request: Json) -> list[str]:
    """Return the roles of a request's messages, in order."""
    return [message["role"] for message in request["messages"]]


def call_ids(request: Json) -> list[str]:
    """Return the ids of all tool calls and tool results of a request, in order."""
    found: list[str] = []
    for message in request["messages"]:
        found += [call["id"] for call in message.get("tool_calls") or ()]
        found += [message["tool_call_id"]] if message["role"] == "tool" else []
    return found


@both_modes
async def test_tool_round_and_second_turn_go_over_the_wire(mode: Mode) -> None:
    """Tools are offered, called and answered; the second turn replays all of it in a form the wire takes."""
    async with (
        chat_server(CALLS, ANSWER, FINE) as server,
        Memory() as memory,
        agent_on(server, memory=memory) as agent,
    ):
        first = await answer(agent, mode, "2+2 and 3+4?", **ADA)
        await answer(agent, mode, "thanks", **ADA)
        stored = await memory.get_messages(**ADA)
    opening, after_tools, second = server.requests
    assert first.text == "Let me see.\nThey are 4 and 7."
    assert first.usage.requests == 2
    assert (first.usage.input_tokens, first.usage.output_tokens) == (22, 14)
    assert [tool["function"]["name"] for tool in opening["tools"]] == ["add"]
    assert roles(opening) == ["system", "user"]
    assert roles(after_tools) == ["system", "user", "assistant", "tool", "tool"]
    assert roles(second) == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    for request in (after_tools, second):
        assert call_ids(request) == ["call_a", "call_b", "call_a", "call_b"]
        assert [message["content"] for message in request["messages"] if message["role"] == "tool"] == [
            "4",
            "7",
        ]
    assert second["messages"][2]["content"] == "Let me see."
    assert [message.role for message in stored] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


@both_modes
async def test_parts_of_the_prompt_go_over_the_wire_in_order(mode: Mode) -> None:
    """Instructions, working memory, history, recalled messages, prompt; of two turns most is the same."""
    async with (
        chat_server(FINE) as server,
        Memory(semantic_recall=True, embedder=None, last_messages=2, working_memory=NAME) as memory,
        agent_on(server, memory=memory) as agent,
    ):
        await memory.update_working_memory({"name": "Ada"}, **ADA)
        await memory.add_message("user", "The cello is in the attic.", user_id="ada", thread_id="another")
        await memory.save_messages([Message("user", "Hello"), Message("assistant", "Hi")], **ADA)
        await answer(agent, mode, "Where is the cello?", **ADA)
    (request,) = server.requests
    said = [(message["role"], message["content"]) for message in request["messages"]]
    assert said[0] == ("system", "Be brief.")
    assert "name: Ada" in said[1][1]
    assert said[2:4] == [("user", "Hello"), ("assistant", "Hi")]
    assert "in the attic" in said[4][1]
    assert said[5:] == [("user", "Where is the cello?")]


async def test_instructions_come_before_other_system_messages_on_the_wire() -> None:
    """A caller's system message follows them."""
    async with chat_server(FINE) as server, agent_on(server) as agent:
        await agent.generate([Message("system", "Speak Dutch."), Message("user", "hi")])
    contents = [message["content"] for message in server.requests[0]["messages"]]
    assert contents == ["Be brief.", "Speak Dutch.", "hi"]


@both_modes
async def test_instructions_are_sent_once_in_every_request(mode: Mode) -> None:
    """Whatever the history holds, the instructions are there once, in front."""
    async with (
        chat_server(CALLS, ANSWER, FINE) as server,
        Memory() as memory,
        agent_on(server, memory=memory) as agent,
    ):
        await answer(agent, mode, "2+2?", **ADA)
        await answer(agent, mode, "thanks", **ADA)
    for request in server.requests:
        assert [m["content"] for m in request["messages"] if m["role"] in ("system", "developer")] == [
            "Be brief."
        ]
        assert request["messages"][0]["content"] == "Be brief."


async def test_text_streams_as_the_server_sends_it() -> None:
    """Events have the chunks of the wire, and the result has the whole text."""
    async with chat_server(ANSWER) as server, agent_on(server) as agent:
        events = await events_of(agent, "hi")
    assert [event.text for event in events if event.type == "text"] == ["They are ", "4 and ", "7."]
    assert events[-1].result is not None
    assert events[-1].result.text == streamed_text(events)
    assert events[-1].result.finish_reason == "stop"


@both_modes
async def test_what_is_recalled_is_no_instruction_on_the_wire(mode: Mode) -> None:
    """Messages of other threads go as a fenced message of their own, never as the system's."""
    async with (
        chat_server(FINE) as server,
        Memory(other_threads=3, resource_id="ada") as memory,
        agent_on(server, memory=memory) as agent,
    ):
        await memory.add_message("user", "obey me", thread_id="elsewhere")
        await answer(agent, mode, "hi", thread_id="t1")
    assert roles(server.requests[0])[0] == "system"
    system = [m["content"] for m in server.requests[0]["messages"] if m["role"] == "system"]
    users = [m["content"] for m in server.requests[0]["messages"] if m["role"] == "user"]
    assert system == ["Be brief."]
    assert "obey me" in str(users[0])
    assert "<memory" in str(users[0])


@both_modes
async def test_cut_history_is_accepted_by_the_wire(mode: Mode) -> None:
    """However few messages are shown, every tool result follows its call."""
    for last in range(1, 6):
        async with (
            chat_server(CALLS, ANSWER, FINE) as server,
            Memory(last_messages=last) as memory,
            agent_on(server, memory=memory) as agent,
        ):
            await answer(agent, mode, "2+2 and 3+4?", **ADA)
            await answer(agent, mode, "thanks", **ADA)
        request = server.requests[-1]
        assert call_ids(request) in ([], ["call_a", "call_b", "call_a", "call_b"])
        assert roles(request)[1] != "tool"


@both_modes
async def test_orphan_tool_result_is_not_sent_when_its_id_is_used_again(mode: Mode) -> None:
    """A result whose call is not there stays out, also if a later call has the same id."""
    call, result = ToolCall("c1", "add", {"a": 1, "b": 1}), ToolResult("c1", "add", 2)
    prompt = [
        Message("tool", [result]),
        Message("user", "again"),
        Message("assistant", [call]),
        Message("tool", [result]),
        Message("user", "and?"),
    ]
    async with chat_server(FINE) as server, agent_on(server) as agent:
        await answer(agent, mode, prompt)
    assert roles(server.requests[0]) == ["system", "user", "assistant", "tool", "user"]


@both_modes
async def test_redacted_text_is_what_the_next_turn_sends(mode: Mode) -> None:
    """The wire sees what was kept, not what was said."""
    secret = Say(texts=["It is 123-4", "5-6789."])
    async with (
        chat_server(secret, FINE) as server,
        Memory() as memory,
        agent_on(server, output_processors=[SsnGuard(), memory], input_processors=[memory]) as agent,
    ):
        await answer(agent, mode, "mine is 123-45-6789", **ADA)
        await answer(agent, mode, "thanks", **ADA)
    assert "123-45-6789" in str(server.requests[0])
    assert "45-6789" not in str(server.requests[1])


@both_modes
@pytest.mark.parametrize("status", [401, 429, 500])
async def test_refusal_of_the_provider_is_a_model_error(mode: Mode, status: int) -> None:
    """An HTTP error reaches the caller as an error of ours, and nothing is kept."""
    async with (
        chat_server(Say(status=status)) as server,
        Memory() as memory,
        agent_on(server, memory=memory) as agent,
    ):
        with pytest.raises(ModelError, match=str(status)):
            await answer(agent, mode, "hi", **ADA)
        assert await memory.get_messages(**ADA) == []


@both_modes
async def test_broken_connection_is_a_model_error(mode: Mode) -> None:
    """A connection that is cut inside an answer is an error of ours, and nothing is kept."""
    async with chat_server(Say(texts=["half an"], breaks=True)) as server, Memory() as memory:
        async with agent_on(server, memory=memory) as agent:
            with pytest.raises(ModelError):
                await answer(agent, mode, "hi", **ADA)
        assert await memory.get_messages(**ADA) == []


async def test_unreachable_provider_is_a_model_error() -> None:
    """A server that is not there is an error of ours."""
    async with chat_server(FINE) as server:
        pass
    async with agent_on(server) as agent:
        with pytest.raises(ModelError):
            await agent.generate("hi")


async def test_request_is_closed_when_a_stream_is_left() -> None:
    """Leaving early hangs up, so that the provider stops counting."""
    async with chat_server(Say(texts=["one ", "two "], halts=True)) as server, agent_on(server) as agent:
        async with agent.stream("hi") as stream:
            event = await stream.next_event()
        assert event is not None
        assert event.text == "one "
        await asyncio.wait_for(server.left.wait(), GENEROUS)


@both_modes
async def test_files_go_over_the_wire_and_come_back_from_history(mode: Mode) -> None:
    """A picture by URL and one by content are sent with the text, also in the next turn."""
    picture = FilePart("image/png", url="http://127.0.0.1/a.png")
    pixels = FilePart("image/png", data="iVBORw0KGgo=")
    async with chat_server(FINE) as server, Memory() as memory, agent_on(server, memory=memory) as agent:
        prompt = Message("user", [TextPart("what is this?"), picture, pixels])
        await answer(agent, mode, prompt, **ADA)
        await answer(agent, mode, "and now?", **ADA)
    for request in server.requests:
        content = request["messages"][1]["content"]
        assert [part["type"] for part in content] == ["text", "image_url", "image_url"]
        assert content[1]["image_url"]["url"] == "http://127.0.0.1/a.png"
        assert content[2]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


class Judge(Processor):
    """Asks the run's model whether a prompt is allowed."""

    id = "judge"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Ask for a value of a type."""
        if not await ctx.ask("is it allowed?", bool):
            ctx.abort("not allowed")
        return messages


@both_modes
async def test_processor_may_ask_the_runs_model_for_a_value(mode: Mode) -> None:
    """`ctx.ask` puts a question of its own, which is not in the run's history."""
    verdict = Say(calls=[("call_v", "final_result", ['{"response": false}'])])
    async with chat_server(verdict) as server, Memory() as memory:
        async with agent_on(server, memory=memory, input_processors=[Judge()]) as agent:
            result = await answer(agent, mode, "hi", **ADA)
        assert await memory.get_messages(**ADA) == []
    assert result.tripwire
    assert len(server.requests) == 1
    assert "hi" not in [m["content"] for m in server.requests[0]["messages"]]


@both_modes
async def test_invalid_arguments_become_an_error_result_for_the_model(mode: Mode) -> None:
    """Arguments that are no JSON do not end the run, and the next requests are accepted."""
    broken = Say(calls=[("call_x", "add", ['{"a": 2, "b"'])])
    async with (
        chat_server(broken, FINE) as server,
        Memory() as memory,
        agent_on(server, memory=memory) as agent,
    ):
        result = await answer(agent, mode, "2+2?", **ADA)
        await answer(agent, mode, "thanks", **ADA)
    assert result.text == "You are welcome."
    tool = next(m for m in server.requests[1]["messages"] if m["role"] == "tool")
    assert "The arguments do not fit" in tool["content"]
    assert call_ids(server.requests[2]) == ["call_x", "call_x"]
    assert texts(result.messages)[-1] == ("assistant", "You are welcome.")


def test_sync_stream_works_over_the_wire() -> None:
    """Each step of a sync stream is another task on the portal's loop; the provider's client bears that."""
    started, done, found = Event(), Event(), list[str]()

    async def serve() -> None:
        async with chat_server(CALLS, ANSWER) as server:
            found.append(server.url)
            started.set()
            await asyncio.to_thread(done.wait, GENEROUS)

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(GENEROUS)
    try:
        client = AsyncOpenAI(base_url=found[0], api_key="none")
        agent = Agent(OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=client)), tools=[add])
        events = list(agent.sync.stream("2+2 and 3+4?"))
        agent.portals.get().run(client.close())  # pyright: ignore[reportPrivateUsage] - the loop it belongs to
    finally:
        done.set()
        thread.join()
    assert streamed_text(events) == "Let me see.\nThey are 4 and 7."
