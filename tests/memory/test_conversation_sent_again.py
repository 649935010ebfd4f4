"""Clients that send only what was said: texts of user and assistant, without ids and without tool rounds."""

from typing import Any

import pytest
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, lookup, model_of, texts

from recollect import Agent, Memory, Message, Processor, RunContext, ToolCall

pytestmark = [pytest.mark.anyio, both_modes]


class LastWord(Processor):
    """Blocks a prompt that ends with a bad word, whatever was said before."""

    id = "last-word"

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at the last message."""
        if "bad" in messages[-1].text:
            ctx.abort("bad word")
        return messages


class Client:
    """Keeps the conversation as plain dicts and sends all of it with every prompt."""

    def __init__(self, agent: Agent, mode: Mode, *before: dict[str, str]) -> None:
        """Begin with what the client shows before anything was said."""
        self._agent = agent
        self._mode: Mode = mode
        self.messages: list[dict[str, str]] = list(before)

    async def say(self, text: str) -> str:
        """Send the conversation and one more message, and take in the answer."""
        self.messages.append({"role": "user", "content": text})
        result = await answer(self._agent, self._mode, self.messages, **ADA)
        if result.text:
            self.messages.append({"role": "assistant", "content": result.text})
        return result.text


def said(client: Client) -> list[tuple[str, str]]:
    """Return what a client holds in the form of `texts`."""
    return [(entry["role"], entry["content"]) for entry in client.messages]


@pytest.mark.parametrize("last_messages", [0, 2, 10, None])
async def test_every_message_is_kept_once_when_tools_were_used_in_every_turn(
    mode: Mode, last_messages: int | None
) -> None:
    """Eight turns with a tool call each are eight questions, however much of them is shown."""
    replies: list[Any] = []
    for number in range(8):
        replies += [ToolCall(f"c{number}", "lookup", {"word": "ping"}), f"answer {number}"]
    async with Memory(last_messages=last_messages) as memory:
        client = Client(Agent(model_of(*replies, mode=mode), tools=[lookup], memory=memory), mode)
        for number in range(8):
            await client.say(f"question {number}")
        stored = await memory.get_messages(**ADA)
    assert [pair for pair in texts(stored) if pair[1]] == said(client)
    assert len(stored) == 8 * 4


async def test_answer_is_recognised_when_it_was_said_around_a_tool_call(mode: Mode) -> None:
    """A client sends `result.text`, which is stored as two messages of one run."""
    async with Memory() as memory:
        model = model_of(["Let me see.", CALL], "It is 3.", "Bye.", mode=mode)
        client = Client(Agent(model, tools=[lookup], memory=memory), mode)
        assert await client.say("one?") == "Let me see.\nIt is 3."
        await client.say("two?")
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored if m.role != "tool"] == ["one?", "Let me see.", "It is 3.", "two?", "Bye."]


async def test_only_the_tail_is_new_when_a_turn_was_blocked(mode: Mode) -> None:
    """What was blocked is not stored; when the client sends it along later, the rest is still recognised."""
    async with Memory() as memory:
        agent = Agent(model_of("A1", "A2", "A3", mode=mode), memory=memory, input_processors=[LastWord()])
        client = Client(agent, mode)
        for text in ("u1", "bad", "u2", "u3"):
            await client.say(text)
        stored = await memory.get_messages(**ADA)
    assert texts(stored) == said(client)
    assert [m.text for m in stored] == ["u1", "A1", "bad", "u2", "A2", "u3", "A3"]


async def test_every_message_is_kept_once_when_memory_only_writes(mode: Mode) -> None:
    """A memory among the output processors alone recognises a resent history as well."""
    async with Memory() as memory:
        model = model_of("A1", CALL, "A2", "A3", mode=mode)
        client = Client(Agent(model, tools=[lookup], output_processors=[memory]), mode)
        for text in ("u1", "u2", "u3"):
            await client.say(text)
        stored = await memory.get_messages(**ADA)
    assert [pair for pair in texts(stored) if pair[1]] == said(client)


async def test_deleted_messages_do_not_come_back_when_a_client_still_has_them(mode: Mode) -> None:
    """What was taken out of a thread is old, not new."""
    async with Memory() as memory:
        client = Client(Agent(model_of("A1", "A2", "A3", "A4", mode=mode), memory=memory), mode)
        for text in ("u1", "u2", "u3"):
            await client.say(text)
        await memory.delete_messages((await memory.get_messages(**ADA))[2:4], **ADA)
        await client.say("u4")
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["u1", "A1", "u3", "A3", "u4", "A4"]


async def test_edited_question_is_added_when_a_client_goes_back(mode: Mode) -> None:
    """A client that asks its second question in other words repeats nothing."""
    async with Memory() as memory:
        client = Client(Agent(model_of("A1", "A2", "B2", mode=mode), memory=memory), mode)
        await client.say("u1")
        await client.say("u2")
        del client.messages[2:]
        await client.say("u2 in other words")
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["u1", "A1", "u2", "A2", "u2 in other words", "B2"]


async def test_greeting_of_the_client_is_kept_once(mode: Mode) -> None:
    """What a client shows before the first question is part of the conversation from then on."""
    async with Memory() as memory:
        agent = Agent(model_of("A1", "A2", mode=mode), memory=memory)
        client = Client(agent, mode, {"role": "assistant", "content": "Welcome!"})
        await client.say("u1")
        await client.say("u2")
        assert texts(await memory.get_messages(**ADA)) == said(client)


async def test_two_messages_at_once_are_kept_when_one_was_said_before(mode: Mode) -> None:
    """Prompts of several messages are no resent history because of one word."""
    async with Memory() as memory:
        agent = Agent(model_of("A1", "A2", mode=mode), memory=memory)
        await answer(agent, mode, "ok", **ADA)
        await answer(agent, mode, [{"role": "user", "content": text} for text in ("ok", "go on")], **ADA)
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["ok", "A1", "ok", "go on", "A2"]


async def test_foreign_history_is_kept_when_one_answer_is_the_same_by_chance(mode: Mode) -> None:
    """A short word in the middle of another conversation does not count as sent again."""
    async with Memory() as memory:
        agent = Agent(model_of("ok", mode=mode), memory=memory)
        await answer(agent, mode, "old", **ADA)
        brought = [("user", "elsewhere"), ("assistant", "ok"), ("user", "go on")]
        await answer(agent, mode, [{"role": role, "content": text} for role, text in brought], **ADA)
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["old", "ok", "elsewhere", "ok", "go on", "ok"]


async def test_system_message_of_the_client_is_shown_in_every_turn(mode: Mode) -> None:
    """System messages are never stored, so that they are never known already."""
    async with Memory() as memory:
        model = model_of("A1", "A2", "A3", mode=mode)
        client = Client(Agent(model, memory=memory), mode, {"role": "system", "content": "be a pirate"})
        for text in ("u1", "u2", "u3"):
            await client.say(text)
        stored = await memory.get_messages(**ADA)
    assert all(texts(shown)[0] == ("system", "be a pirate") for shown in model.shown)
    assert [m.text for m in stored] == ["u1", "A1", "u2", "A2", "u3", "A3"]


async def test_question_comes_before_its_answer_when_it_is_asked_again(mode: Mode) -> None:
    """A question under a known id is shown once, at the end, without what was answered to it before."""
    async with Memory() as memory:
        model = model_of("A1", "A2", "B1", mode=mode)
        agent = Agent(model, memory=memory)
        await answer(agent, mode, Message("user", "u1", id="m1"), **ADA)
        await answer(agent, mode, Message("user", "u2", id="m2"), **ADA)
        again = await answer(agent, mode, Message("user", "u1", id="m1"), **ADA)
    assert again.saved
    assert [m.text for m in model.shown[2]] == ["u2", "A2", "u1"]


async def test_edited_message_is_not_called_saved_when_its_id_is_taken(mode: Mode) -> None:
    """The thread keeps the first version, so that the turn is not kept and the trace says why."""
    async with Memory() as memory:
        agent = Agent(model_of("A1", "A2", mode=mode), memory=memory)
        await answer(agent, mode, Message("user", "hi", id="m1"), **ADA)
        result = await answer(agent, mode, Message("user", "EDITED", id="m1"), **ADA)
        stored = await memory.get_messages(**ADA)
    assert (result.text, result.saved) == ("A2", False)
    entry = result.trace.find("message-persistence", "commit")
    assert entry is not None
    assert "an id of its own" in str(entry.error)
    assert [m.text for m in stored] == ["hi", "A1"]
