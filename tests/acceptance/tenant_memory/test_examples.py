"""Document C, "Example Usage": its examples as they stand there, with what was printed compared."""

from collections.abc import Generator

import pytest

from recollect.users import (
    add_message,
    clear_conversation_history,
    connect,
    count_messages,
    get_conversation_history,
    get_memory,
    get_recent_messages,
    get_user_state,
    set_memory,
    set_user_state,
)


@pytest.fixture(autouse=True)
def _connected(url: str) -> Generator[None]:
    with connect(url):
        yield


def test_example_of_conversation_history() -> None:
    """Storing a conversation and reading it back for a prompt, oldest first."""
    add_message("user123", "user", "What is Python?", tenant_id=1)
    add_message("user123", "assistant", "Python is a programming language...", tenant_id=1)

    history = get_recent_messages("user123", tenant_id=1, count=10)
    assert [f"{msg.role}: {msg.content}" for msg in history] == [
        "user: What is Python?",
        "assistant: Python is a programming language...",
    ]


def test_example_of_user_memory() -> None:
    """Storing preferences and context, reading one back, and updating it."""
    set_memory(
        "user123",
        "preferences",
        {"language": "en", "expertise_level": "intermediate", "topic_interest": "Python debugging"},
        tenant_id=1,
    )
    set_memory(
        "user123",
        "context",
        {"current_topic": "async/await", "questions_asked": 3, "depth": "advanced"},
        tenant_id=1,
    )

    prefs = get_memory("user123", "preferences", tenant_id=1)
    assert prefs is not None
    assert prefs["expertise_level"] == "intermediate"

    set_memory("user123", "preferences", {"language": "en", "expertise_level": "advanced"}, tenant_id=1)
    assert get_memory("user123", "preferences", tenant_id=1) == {
        "language": "en",
        "expertise_level": "advanced",
    }


def test_example_of_user_state() -> None:
    """Halting a user, checking the state, and resuming."""
    set_user_state("user123", "halted", tenant_id=1)

    state = get_user_state("user123", tenant_id=1)
    assert state
    assert state.mode == "halted"

    set_user_state("user123", "active", tenant_id=1)
    state = get_user_state("user123", tenant_id=1)
    assert state
    assert state.mode == "active"


def test_example_of_a_chat() -> None:
    """The typical flow: store the question, gather what the prompt needs, store the answer."""
    set_memory("user123", "preferences", {"language": "en"}, tenant_id=1)
    add_message("user123", "user", "Hello", tenant_id=1)

    history = get_recent_messages("user123", tenant_id=1, count=10)
    prefs = get_memory("user123", "preferences", tenant_id=1)
    context = get_memory("user123", "context", tenant_id=1)
    assert [message.content for message in history] == ["Hello"]
    assert (prefs, context) == ({"language": "en"}, None)

    add_message("user123", "assistant", "Hi, how can I help?", tenant_id=1)
    assert count_messages("user123", tenant_id=1) == 2


def test_example_of_pagination_and_cleanup() -> None:
    """Fetching only what is needed, and clearing a long history."""
    for number in range(15):
        add_message("user123", "user", str(number), tenant_id=1)
    history = get_conversation_history("user123", tenant_id=1, limit=10)
    assert [message.content for message in history] == [str(number) for number in range(14, 4, -1)]

    if count_messages("user123", tenant_id=1) > 10:
        clear_conversation_history("user123", tenant_id=1)
    assert count_messages("user123", tenant_id=1) == 0
