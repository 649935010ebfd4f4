"""Clients that send the whole history again: no duplicates, and no reordering."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, lookup, model_of, texts
from tests.support.guards import SsnGuard

from recollect import Agent, Memory, Message, Result

pytestmark = [pytest.mark.anyio, both_modes]

Client = Callable[[list[Message]], list[Any]]


def with_ids(seen: list[Message]) -> list[Any]:
    """Send back what the server gave out, ids and all."""
    return list(seen)


def without_ids(seen: list[Message]) -> list[Any]:
    """Send back roles and texts as plain dicts."""
    return [{"role": message.role, "content": message.text} for message in seen if message.text]


def with_own_ids(seen: list[Message]) -> list[Any]:
    """Send back messages under ids that the client made up, other ones each time."""
    return [Message(message.role, message.body) for message in seen]


def with_half_of_the_ids(seen: list[Message]) -> list[Any]:
    """Send back the user's messages as they were, and the assistant's under new ids."""
    return [m if m.role == "user" else Message(m.role, m.body) for m in seen]


CLIENTS = {"ids": with_ids, "no ids": without_ids, "own ids": with_own_ids, "some ids": with_half_of_the_ids}
each_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())


async def converse(agent: Agent, mode: Mode, client: Client, turns: int) -> list[Result]:
    """Talk for some turns as a client that keeps the history itself."""
    seen: list[Message] = []
    results: list[Result] = []
    for number in range(turns):
        prompt = Message("user", f"question {number}")
        result = await answer(agent, mode, [*client(seen), prompt], **ADA)
        seen += [prompt, *(m for m in result.messages if m.origin == "response")]
        results.append(result)
    return results


@each_client
@pytest.mark.parametrize("last_messages", [2, 10, None])
async def test_every_message_is_kept_once_when_a_client_sends_its_history(
    mode: Mode, client: Client, last_messages: int | None
) -> None:
    """Five turns are ten messages, in order, and the model is never shown one twice."""
    async with Memory(last_messages=last_messages) as memory:
        model = model_of(*(f"answer {number}" for number in range(5)), mode=mode)
        await converse(Agent(model, memory=memory), mode, client, 5)
        stored = await memory.get_messages(**ADA)
    expected = [
        (role, f"{word} {n}")
        for n in range(5)
        for role, word in (("user", "question"), ("assistant", "answer"))
    ]
    assert texts(stored) == expected
    for shown in model.shown:
        assert len(set(texts(shown))) == len(shown)
        assert shown[-1].text.startswith("question")


@each_client
async def test_tool_rounds_are_kept_once_when_a_client_sends_its_history(mode: Mode, client: Client) -> None:
    """A history with tool calls in it is recognised as well."""
    async with Memory() as memory:
        model = model_of(CALL, "Pong.", "Fine.", "Good.", mode=mode)
        agent = Agent(model, tools=[lookup], memory=memory)
        await converse(agent, mode, client, 3)
        stored = await memory.get_messages(**ADA)
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"] + [
        "user",
        "assistant",
    ] * 2
    assert [m.text for m in stored if m.text] == [
        "question 0",
        "Pong.",
        "question 1",
        "Fine.",
        "question 2",
        "Good.",
    ]


@each_client
async def test_messages_are_kept_once_when_a_guard_redacted_them(mode: Mode, client: Client) -> None:
    """The client sends what it typed; what is stored was redacted; it is the same message."""
    async with Memory() as memory:
        agent = Agent(model_of("ok", mode=mode), memory=memory, input_processors=[SsnGuard()])
        first = Message("user", "mine is 123-45-6789")
        answered = await answer(agent, mode, [first], **ADA)
        reply = next(m for m in answered.messages if m.role == "assistant")
        await answer(agent, mode, [*client([first, reply]), Message("user", "and?")], **ADA)
        stored = await memory.get_messages(**ADA)
    assert texts(stored) == [
        ("user", "mine is [REDACTED]"),
        ("assistant", "ok"),
        ("user", "and?"),
        ("assistant", "ok"),
    ]


@pytest.mark.parametrize("client", [with_ids, without_ids])
async def test_messages_are_kept_once_when_history_is_not_shown(mode: Mode, client: Client) -> None:
    """A memory that only writes recognises a resent history too."""
    async with Memory(last_messages=False) as memory:
        await converse(Agent(model_of("a", "b", "c", mode=mode), memory=memory), mode, client, 3)
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["question 0", "a", "question 1", "b", "question 2", "c"]


async def test_repeated_question_is_a_new_message_when_it_is_said_again(mode: Mode) -> None:
    """A user may say the same thing twice."""
    async with Memory() as memory:
        agent = Agent(model_of("yes", mode=mode), memory=memory)
        for _ in range(3):
            await answer(agent, mode, "ok?", **ADA)
        assert len(await memory.get_messages(**ADA)) == 6


async def test_prompt_is_still_shown_when_its_id_is_known_already(mode: Mode) -> None:
    """A client that asks again under the same message id gets an answer to its question."""
    async with Memory() as memory:
        model = model_of("first", "second", mode=mode)
        agent = Agent(model, memory=memory)
        prompt = Message("user", "hello?", id="m1")
        await answer(agent, mode, [prompt], **ADA)
        await answer(agent, mode, [prompt], **ADA)
        stored = await memory.get_messages(**ADA)
    assert model.shown[1][-1].text == "hello?"
    assert [m.id for m in stored].count("m1") == 1


async def test_other_history_is_kept_when_it_is_not_what_is_stored(mode: Mode) -> None:
    """Messages that the thread does not end with are new, and are kept in the order sent."""
    async with Memory() as memory:
        agent = Agent(model_of("ok", mode=mode), memory=memory)
        await answer(agent, mode, "old", **ADA)
        brought = [{"role": "user", "content": "from elsewhere"}, {"role": "assistant", "content": "indeed"}]
        await answer(agent, mode, [*brought, {"role": "user", "content": "go on"}], **ADA)
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["old", "ok", "from elsewhere", "indeed", "go on", "ok"]


async def test_assistant_message_in_the_prompt_is_redacted_when_it_is_new(mode: Mode) -> None:
    """An output guard cleans what the caller sent in the assistant's name like everything else."""
    async with Memory() as memory:
        agent = Agent(model_of("ok", mode=mode), output_processors=[SsnGuard(), memory])
        prompt = [Message("user", "hi"), Message("assistant", "it is 123-45-6789"), Message("user", "thanks")]
        await answer(agent, mode, prompt, **ADA)
        stored = await memory.get_messages(**ADA)
    assert [m.text for m in stored] == ["hi", "it is [REDACTED]", "thanks", "ok"]
