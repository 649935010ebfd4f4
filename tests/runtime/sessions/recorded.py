"""What tests of session search share: a user with several sessions, and the tool as a run would call it."""

from datetime import UTC, datetime, timedelta

from recollect import Message, Scope, Store, ToolCall, ToolResult
from recollect.pipeline.context import RunIds, RunState, bind_tools
from recollect.runtime.sessions.search import SessionSearch
from recollect.storage.opening import StoreHandle
from recollect.trace import Trace

USER = "local"
HERE = "here"
"""The session that the model is in."""

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def scope_of(session: str | None, user: str = USER) -> Scope:
    """Return the scope of a session."""
    return Scope(None, user, session)


def search_in(store: Store, user: str = USER) -> SessionSearch:
    """Return the search over a user's sessions."""
    return SessionSearch(StoreHandle(store), Scope(None, user))


async def call(search: SessionSearch, *, session: str = HERE, **arguments: object) -> str:
    """Call the tool as a model in a session would."""
    (tool,) = search.get_tools()
    with bind_tools(RunState("run", RunIds(None, USER, session), Trace())):
        return await tool(**arguments)


async def say(store: Store, session: str, *texts: str, day: int = 0, user: str = USER) -> list[str]:
    """Add messages to a session, the user first, and return the ids of its messages."""
    time = START + timedelta(days=day)
    turn = [
        Message(
            "assistant" if index % 2 else "user",
            text,
            id=f"{session}-{day}-{index}",
            created_at=time + timedelta(minutes=index),
        )
        for index, text in enumerate(texts)
    ]
    await store.append_turn(turn, scope=scope_of(session, user))
    return [message.id for message in turn]


async def use_tool(store: Store, session: str, text: str, *, rounds: int = 1) -> None:
    """Add tool calls with results to a session, and nothing that anybody said."""
    turn: list[Message] = []
    for number in range(rounds):
        name = f"{session}-tool-{number}"
        turn.append(Message("assistant", [ToolCall(name, "look", {"for": text})], id=f"{name}-call"))
        turn.append(Message("tool", [ToolResult(name, "look", text)], id=f"{name}-result"))
    await store.append_turn(turn, scope=scope_of(session))
