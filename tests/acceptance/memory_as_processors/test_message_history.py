"""Document A, "Testing Strategy for MessageHistory": the unit tests of `MessageHistoryProcessor`."""

import sqlite3
from contextlib import closing

import pytest
from tests.support.agents import ADA
from tests.support.contexts import context, new_run, save
from tests.support.databases import run_sql
from tests.support.threads import PROMPT, THREAD, conversation, show_prompt, tool_round

from recollect import (
    Message,
    MessageHistoryProcessor,
    StorageError,
    Store,
    ToolCall,
    ToolResult,
    open_store,
)
from recollect.storage.opening import sqlite_path

pytestmark = pytest.mark.anyio


class TestInputProcessing:
    """`Input processing tests`."""

    async def test_fetches_last_n_messages_from_storage(self, store: Store) -> None:
        """The newest messages come in before the prompt, oldest first, marked as memory."""
        await store.append_turn(conversation(6), scope=THREAD)
        view = await show_prompt(MessageHistoryProcessor(store, last_messages=3), PROMPT)
        assert [message.id for message in view] == ["m3", "m4", "m5", "prompt"]
        assert [message.origin for message in view] == ["memory"] * 3 + ["input"]

    async def test_merges_historical_messages_with_new_messages(self, store: Store) -> None:
        """History goes behind what stands before the prompt and before everything the caller said."""
        await store.append_turn(conversation(2), scope=THREAD)
        context_message = Message("system", "recalled", id="recalled", origin="memory")
        extra = Message("user", "by the way", id="extra")
        view = await show_prompt(MessageHistoryProcessor(store), context_message, extra, PROMPT)
        assert [message.id for message in view] == ["recalled", "m0", "m1", "extra", "prompt"]

    async def test_avoids_duplicate_message_ids(self, store: Store) -> None:
        """What memory has brought in under an id already is not brought in again."""
        await store.append_turn(conversation(3), scope=THREAD)
        known = conversation(3)[1].replace(origin="memory")
        view = await show_prompt(MessageHistoryProcessor(store), known, PROMPT)
        assert sorted(message.id for message in view) == ["m0", "m1", "m2", "prompt"]

    async def test_handles_empty_storage(self, store: Store) -> None:
        """The prompt of a first run stays as it is."""
        assert await show_prompt(MessageHistoryProcessor(store), PROMPT) == [PROMPT]

    @pytest.mark.parametrize(
        ("included", "expected"), [(True, ["rule", "m0", "prompt"]), (False, ["m0", "prompt"])]
    )
    async def test_respects_include_system_messages_flag(
        self, store: Store, *, included: bool, expected: list[str]
    ) -> None:
        """Stored system messages are shown if that is asked for, and only then."""
        await store.append_turn([Message("system", "be kind", id="rule"), *conversation(1)], scope=THREAD)
        processor = MessageHistoryProcessor(store, include_system_messages=included)
        assert [message.id for message in await show_prompt(processor, PROMPT)] == expected

    async def test_handles_storage_errors_gracefully(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A failed read goes on without memory, and says so in the trace and in the log."""
        await store.close()
        run = new_run(**ADA)
        view = await MessageHistoryProcessor(store).process_input([PROMPT], context(run))
        assert view == [PROMPT]
        entry = run.trace.find("tested", "input")
        assert entry is not None
        assert entry.error is not None
        assert "closed" in entry.error
        assert "goes on without memory" in caplog.text

    async def test_returns_original_messages_when_no_thread_id(self, store: Store) -> None:
        """A run and a processor that both name no thread leave the prompt as it is."""
        await store.append_turn(conversation(2), scope=THREAD)
        run = new_run(tenant_id=None)
        assert await MessageHistoryProcessor(store).process_input([PROMPT], context(run)) == [PROMPT]

    async def test_handles_assistant_messages_with_tool_calls(self, store: Store) -> None:
        """Tool calls come back from history as they were."""
        await store.append_turn(tool_round(), scope=THREAD)
        view = await show_prompt(MessageHistoryProcessor(store), PROMPT)
        assert [call for message in view for call in message.tool_calls] == [
            ToolCall("c1", "add", {"a": 2, "b": 2})
        ]

    async def test_handles_tool_result_messages(self, store: Store) -> None:
        """A history that is cut at a tool result takes the call along."""
        await store.append_turn(tool_round(), scope=THREAD)
        view = await show_prompt(MessageHistoryProcessor(store, last_messages=2), PROMPT)
        assert [message.id for message in view] == ["c1-call", "c1-result", "c1-answer", "prompt"]
        assert view[1].tool_results == (ToolResult("c1", "add", 4),)


class TestOutputProcessing:
    """`Output processing tests`."""

    async def test_saves_user_assistant_tool_call_and_tool_result_messages(self, store: Store) -> None:
        """The whole turn is kept, in its order, under the run's id."""
        turn = tool_round()
        await save(MessageHistoryProcessor(store), turn, new_run("r1", **ADA))
        stored = await store.last_messages(None, scope=THREAD)
        assert stored == turn
        assert {message.run_id for message in stored} == {"r1"}

    async def test_filters_out_only_system_messages(self, store: Store) -> None:
        """System messages are not kept; everything else is."""
        turn = [Message("system", "be kind"), *tool_round()]
        await save(MessageHistoryProcessor(store), turn, new_run(**ADA))
        stored = await store.last_messages(None, scope=THREAD)
        assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]

    async def test_updates_thread_metadata(self, store: Store) -> None:
        """The thread is made with a title, and counts and dates its messages from then on."""
        processor = MessageHistoryProcessor(store)
        await save(processor, conversation(2), new_run("r1", **ADA))
        first = await store.get_thread(scope=THREAD)
        await save(processor, tool_round(), new_run("r2", **ADA))
        second = await store.get_thread(scope=THREAD)
        assert first is not None
        assert second is not None
        assert (first.title, first.message_count, second.message_count) == ("New Conversation", 2, 6)
        assert second.updated_at > first.updated_at
        assert second.last_message_at is not None

    async def test_handles_save_failures_gracefully(self, store: Store) -> None:
        """A write that fails says so with an error of ours at commit, and the turn goes on unchanged."""
        run = new_run(**ADA)
        await store.close()
        turn = conversation(2)
        after = await MessageHistoryProcessor(store).process_output_result(turn, context(run, "result"))
        assert after == turn
        with pytest.raises(StorageError, match="closed"):
            await run.on_commit[0][1]()

    @pytest.mark.parametrize(
        "url_fixture", ["sqlite_url", pytest.param("new_postgres_url", marks=pytest.mark.postgres)]
    )
    async def test_handles_thread_update_failures_gracefully(
        self, url_fixture: str, request: pytest.FixtureRequest
    ) -> None:
        """A turn whose thread cannot be updated is rolled back whole."""
        url: str = request.getfixturevalue(url_fixture)
        async with open_store(url) as store:
            await store.append_turn(conversation(2), scope=THREAD)
            _forbid_thread_updates(url)
            with pytest.raises(StorageError, match="no update today"):
                await save(MessageHistoryProcessor(store), tool_round(), new_run("r1", **ADA))
            stored = await store.last_messages(None, scope=THREAD)
            thread = await store.get_thread(scope=THREAD)
        assert [message.id for message in stored] == ["m0", "m1"]
        assert thread is not None
        assert thread.message_count == 2

    async def test_returns_original_messages_when_no_thread_id(self, store: Store) -> None:
        """A run and a processor that both name no thread leave the turn as it is, and write nothing."""
        turn, run = conversation(2), new_run(tenant_id=None)
        after = await MessageHistoryProcessor(store).process_output_result(turn, context(run, "result"))
        assert after == turn
        assert [await commit() for _, commit in run.on_commit] == [False]

    async def test_handles_messages_with_only_system_messages(self, store: Store) -> None:
        """A turn of system messages alone makes neither messages nor a thread."""
        run = new_run(**ADA)
        await save(MessageHistoryProcessor(store), [Message("system", "be kind")], run)
        assert run.on_commit == []
        assert await store.get_thread(scope=THREAD) is None

    async def test_generates_message_ids_if_not_provided(self, store: Store) -> None:
        """Messages without ids get ids of their own, which stay with them."""
        turn = [Message("user", "hi"), Message("assistant", "hello")]
        await save(MessageHistoryProcessor(store), turn, new_run(**ADA))
        stored = await store.last_messages(None, scope=THREAD)
        assert [message.id for message in stored] == [message.id for message in turn]
        assert len({message.id for message in stored}) == 2

    async def test_preserves_existing_message_ids(self, store: Store) -> None:
        """Given ids are kept, and a turn that is sent again is not kept twice."""
        processor = MessageHistoryProcessor(store)
        for _ in range(2):
            await save(processor, conversation(2), new_run(**ADA))
        assert [message.id for message in await store.last_messages(None, scope=THREAD)] == ["m0", "m1"]


def _forbid_thread_updates(url: str) -> None:
    """Have the database reject every update of a thread, by a trigger."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as raw:
            raw.execute(
                "CREATE TRIGGER t BEFORE UPDATE ON threads BEGIN SELECT RAISE(ABORT, 'no update today'); END"
            )
            raw.commit()
        return
    run_sql(
        url,
        "CREATE FUNCTION recollect.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION ''no update today''; END'",
    )
    run_sql(
        url,
        "CREATE TRIGGER t BEFORE UPDATE ON recollect.threads "
        "FOR EACH ROW EXECUTE FUNCTION recollect.refuse()",
    )
