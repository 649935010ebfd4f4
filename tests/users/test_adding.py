"""`add_message` with options: an id makes sending again harmless, and times and metadata are stored."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.users.calls import Call

from recollect import ConflictError, Scope, Store, open_store
from recollect.testing import ScriptedClock
from recollect.users import Users

THEN = datetime(2020, 5, 6, 9, 30, tzinfo=UTC)


def test_message_that_is_added_twice_is_stored_once(call: Call) -> None:
    """The second call returns the integer id of the stored message, whatever it says itself."""
    first = call(Users.add_message, "ann", "user", "Porto", 1, id="m1", created_at=THEN)
    assert call(Users.add_message, "ann", "user", "Lisbon", 1, id="m1") == first
    (stored,) = call(Users.get_conversation_history, "ann", 1)
    assert (stored.id, stored.content, stored.created_at) == (first, "Porto", THEN)
    assert call(Users.count_messages, "ann", 1) == 1


def test_same_id_is_free_for_another_user_and_tenant(call: Call) -> None:
    """An id belongs to one user of one tenant."""
    numbers = [
        call(Users.add_message, user, "user", f"{user} of {tenant}", tenant, id="m1")
        for user, tenant in (("ann", 1), ("bob", 1), ("ann", 2), ("ann", None))
    ]
    assert len(set(numbers)) == 4
    assert [m.content for m in call(Users.get_conversation_history, "ann", None)] == ["ann of None"]


@pytest.mark.anyio
async def test_metadata_is_stored(store: Store) -> None:
    """The rest of recollect reads the metadata and the text id."""
    number = await Users(store).add_message(
        "ann", "user", "Porto", 1, metadata={"name": "Ann", "n": 1}, id="m1", created_at=THEN
    )
    (message,) = await store.last_messages(None, scope=Scope(1, "ann", "default"))
    assert (message.id, message.number, message.created_at) == ("m1", number, THEN)
    assert message.metadata == {"name": "Ann", "n": 1}


@pytest.mark.anyio
async def test_id_of_a_message_in_another_thread_is_taken(store: Store) -> None:
    """One id means one message, so the thread `default` cannot have it too."""
    users = Users(store)
    await users.add_message("ann", "user", "Porto", 1, id="m1")
    (message,) = await store.last_messages(None, scope=Scope(1, "ann", "default"))
    with pytest.raises(ConflictError, match="m1"):
        await store.append_turn([message], scope=Scope(1, "ann", "other"))


@pytest.mark.anyio
async def test_message_expires(store_url: str) -> None:
    """No function returns or counts it from its time on, and its id is free again."""
    clock = ScriptedClock()
    async with open_store(store_url, clock=clock) as store:
        users = Users(store)
        await users.add_message("ann", "user", "kept", 1)
        due = clock.time + timedelta(hours=1)
        number = await users.add_message("ann", "user", "short", 1, id="m1", expires_at=due)
        assert [m.content for m in await users.get_recent_messages("ann", 1)] == ["kept", "short"]
        clock.tick(3600)
        assert [m.content for m in await users.get_recent_messages("ann", 1)] == ["kept"]
        assert [m.content for m in await users.get_conversation_history("ann", 1)] == ["kept"]
        assert await users.count_messages("ann", 1) == 1
        assert await users.add_message("ann", "user", "again", 1, id="m1") != number
        assert await users.count_messages("ann", 1) == 2
