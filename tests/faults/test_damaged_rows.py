"""Rows with impossible values, in a database that is sound otherwise: they are named, and stop nothing."""

import logging
from pathlib import Path
from typing import LiteralString, cast

import pytest
from tests.support.databases import run_sql

from recollect import Agent, Memory, Message, Scope, ToolCall, ToolResult, open_store
from recollect.errors import StorageCorruptError
from recollect.storage.sqlite.connection import connect
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

SCOPE = Scope(1, "ann", "t")
DEEP = "[" * 20_000 + "]" * 20_000

MESSAGES = {
    "metadata is a list": "metadata = '[1]'",
    "metadata is no JSON": "metadata = '{\"a\":'",
    "metadata is NaN": "metadata = '{\"a\":NaN}'",
    "metadata has a huge number": "metadata = '{\"a\":1e999}'",
    "metadata is deep": f"metadata = '{DEEP}'",
    "metadata is rather deep": f"metadata = '{{\"a\":{DEEP[19_700:20_300]}}}'",
    "metadata has half a character": r"""metadata = '{"a":"\ud83d"}'""",
    "unknown role": "role = 9",
    "negative role": "role = -1",
    "unknown origin": "origin = 9",
    "a NUL in the text": "text = char(0) || 'x'",
    "text is not UTF-8": "text = CAST(x'80ff' AS TEXT)",
    "run is not UTF-8": "run_id = CAST(x'80ff' AS TEXT)",
    "time out of range": "created_at = 9223372036854775807",
    "expiry out of range": "expires_at = 9223372036854775807",
    "a text part that is a number": """parts = '[{"type":"text","text":5}]'""",
    "an unknown part": """parts = '[{"type":"song"}]'""",
    "parts are an object": "parts = '{}' || '5'",
    "parts are deep": f"parts = '{DEEP}'",
}


@pytest.mark.parametrize("damage", MESSAGES.values(), ids=MESSAGES)
async def test_history_goes_on_without_a_message_when_it_is_damaged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A chat answers and saves, every read leaves the message out with a warning, and deleting it helps."""
    path = tmp_path / "store.db"
    await _fill(path)
    _execute(path, f"UPDATE messages SET {damage} WHERE number = 2")  # noqa: S608 - our own text
    async with Memory(path, tenant_id=1, user_id="ann", semantic_recall=True) as memory:
        result = await Agent(ScriptedModel("fine"), memory=memory).generate("my dog?", thread_id="t")
        assert (result.text, result.saved) == ("fine", True)
        assert (await memory.query("cat Tom")).hits
    async with open_store(path) as store:
        caplog.clear()
        found = [message.number for message in await store.last_messages(10, scope=SCOPE)]
        assert found == [1, 3, 4, 5, 6]
        assert "left out" in caplog.text
        assert "thread 't'" in caplog.text
        assert [m.number for m in await store.messages_by_number([1, 2, 3], scope=SCOPE)] == [1, 3]
        assert 2 not in [message.number for message in await store.user_history(scope=SCOPE)]
        assert 1 in await store.numbers_with_metadata({"a": 1}, scope=SCOPE)
        turn = [Message("tool", [ToolResult("c", "look", "done")])]  # looks for its call in the messages
        assert await store.append_turn(turn, scope=SCOPE)
        assert await store.delete_message_number(2, tenant_id=1)
        caplog.clear()
        assert len(await store.last_messages(None, scope=SCOPE)) == 6
        assert "left out" not in caplog.text


async def test_export_names_the_message_when_it_is_damaged(tmp_path: Path) -> None:
    """An export that lacked a row would be taken for a whole one; an erasure does not read the rows."""
    path = tmp_path / "store.db"
    await _fill(path)
    _execute(path, "UPDATE messages SET metadata = '[1]' WHERE number = 2")
    async with open_store(path) as store:
        with pytest.raises(StorageCorruptError, match="message 2 of thread 't' is damaged"):
            _ = [line async for line in store.export(scope=SCOPE)]
        assert (await store.erase(scope=SCOPE)).counts["messages"] == 4


VALUES = {
    "a list": "value = '[1]'",
    "a number": "value = '5'",
    "deep": f"value = '{DEEP}'",
    "of a wrong time": "updated_at = 9223372036854775807",
}


@pytest.mark.parametrize("damage", VALUES.values(), ids=VALUES)
async def test_chat_goes_on_when_working_memory_is_damaged(tmp_path: Path, damage: str) -> None:
    """Reading it names the version, and restoring an earlier one mends it."""
    path = tmp_path / "store.db"
    await _fill(path)
    _execute(path, f"UPDATE working_memory SET {damage} WHERE version = 2")  # noqa: S608 - our own text
    async with Memory(path, tenant_id=1, user_id="ann", working_memory="Name: {{name}}") as memory:
        result = await Agent(ScriptedModel("fine"), memory=memory).generate("hello", thread_id="t")
        assert (result.text, result.saved) == ("fine", True)
        with pytest.raises(StorageCorruptError, match="version 2 of the working memory is damaged"):
            await memory.get_working_memory()
        assert [version.version for version in await memory.working_memory_history()] == [1]
        restored = await memory.restore_working_memory(1)
        assert (restored.version, restored["name"]) == (3, "Ada")
        assert (await memory.get_working_memory())["name"] == "Ada"


async def test_others_are_read_when_one_thread_value_or_event_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A list leaves the damaged one out with a warning; asking for it alone is an error that names it."""
    path = tmp_path / "store.db"
    await _fill(path)
    _execute(
        path,
        "UPDATE threads SET metadata = '[1]' WHERE thread_id = 't'",
        "UPDATE user_memory SET value = '[1]' WHERE key = 'a'",
        "UPDATE events SET payload = '[1]' WHERE name = 'a'",
        "UPDATE user_state SET updated_at = 9223372036854775807",
    )
    async with open_store(path) as store:
        assert [thread.id for thread in await store.list_threads(scope=SCOPE)] == ["u"]
        assert [entry.key for entry in await store.list_memory(scope=SCOPE)] == ["b"]
        assert [event.name for event in await store.list_events(scope=SCOPE)] == ["b"]
        assert caplog.text.count("left out") == 3
        for call, named in (
            (store.get_thread(scope=SCOPE), "thread 't'"),
            (store.get_memory("a", scope=SCOPE), "the memory under 'a'"),
            (store.get_state(scope=SCOPE), "the state of the user"),
        ):
            with pytest.raises(StorageCorruptError, match=f"{named} is damaged"):
                await call


@pytest.mark.parametrize("damage", ["term_hashes = x'010203'", "vector = x'01', model_id = 'm'"])
async def test_search_goes_on_without_a_row_when_its_columns_are_damaged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Search rows are derived data: the warning says how they are made again."""
    path = tmp_path / "store.db"
    await _fill(path)
    async with Memory(path, tenant_id=1, user_id="ann", semantic_recall=True) as memory:
        await memory.query("dog")
        await memory.add_message("user", "A bird named Pip", thread_id="t")
        await memory.settled()
    _execute(path, f"UPDATE search_rows SET {damage} WHERE place >> 8 = 1")  # noqa: S608 - our own text
    caplog.set_level(logging.WARNING)
    async with Memory(path, tenant_id=1, user_id="ann", semantic_recall=True) as memory:
        found = await memory.query("cat Tom")
        assert any("Tom" in hit.message.text for hit in found.hits)
        result = await Agent(ScriptedModel("fine"), memory=memory).generate("my dog?", thread_id="t")
        assert (result.text, result.saved) == ("fine", True)
    assert "recollect reindex" in caplog.text


@pytest.mark.postgres
@pytest.mark.parametrize(
    "damage",
    ["metadata = '[1]'", "role = 'villain'", "origin = 'nowhere'", "created_at = 9223372036854775807"],
)
async def test_history_goes_on_on_postgres_when_a_message_is_damaged(postgres_url: str, damage: str) -> None:
    """The same rows are left out on both engines."""
    async with open_store(postgres_url) as store:
        placed = await store.append_turn([Message("user", "one"), Message("user", "two")], scope=SCOPE)
        update = f"UPDATE recollect.messages SET {damage} WHERE number = {placed[0].number}"  # noqa: S608
        run_sql(postgres_url, cast("LiteralString", update))
        assert [message.text for message in await store.last_messages(5, scope=SCOPE)] == ["two"]


async def _fill(path: Path) -> None:
    async with open_store(path) as store:
        turn = [
            Message("user", "my dog Rex", metadata={"a": 1}),
            Message("user", "a word " * 3, metadata={"a": 1}),
            Message("user", "my cat Tom"),
            Message("assistant", [ToolCall("c", "look", {})]),
        ]
        await store.append_turn(turn, scope=SCOPE)
        await store.create_thread(metadata={"a": 1}, scope=SCOPE.with_thread("u"))
        for key in ("a", "b"):
            await store.set_memory(key, {"v": 1}, scope=SCOPE)
            await store.add_event(key, {"v": 1}, scope=SCOPE)
        await store.set_state("calm", scope=SCOPE)
        for name in ("Ada", "Eve"):
            await store.update_working_memory({"name": name}, scope=SCOPE.with_thread(None))


def _execute(path: Path, *statements: str) -> None:
    connection = connect(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()
