"""The loop as both modes share it: sessions, skills, tools, guards, trips and failures."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runtimes import Way, both_modes, both_ways, call_to_add, loaded, write_notes, write_skill

from recollect import InvalidArgumentError, ToolCall
from recollect.errors import ConfigError, ModelError
from recollect.runtime.loader import EngineLoader
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]


@both_modes
@both_ways
async def test_a_session_goes_on_and_another_knows_nothing_of_it(tmp_path: Path, mode: str, way: Way) -> None:
    """The model is shown the session so far; every run without a session has a new one."""
    model = ScriptedModel(["one", "two", "three"])
    async with loaded(tmp_path, mode, model) as setup:
        first = await setup.say(way, "hello", session_id=None)
        await setup.say(way, "more", first.session_id)
        other = await setup.say(way, "new", session_id=None)
        transcript = await setup.transcript(first.session_id)
    assert transcript == [("user", "hello"), ("assistant", "one"), ("user", "more"), ("assistant", "two")]
    assert [message.text for message in model.shown[1] if message.role != "system"] == [
        "hello",
        "one",
        "more",
    ]
    assert [message.text for message in model.shown[2] if message.role != "system"] == ["new"]
    assert other.session_id != first.session_id
    assert (first.text, first.tripwire, first.saved, first.finish_reason) == (
        "one",
        None,
        True,
        other.finish_reason,
    )
    assert {entry.processor_id for entry in first.trace} >= {"message-history", "long-term-memory"}


@both_modes
@both_ways
async def test_skills_are_shown_for_their_run_and_never_kept(tmp_path: Path, mode: str, way: Way) -> None:
    """Their text is in no transcript, and the next run does not see it."""
    write_skill(tmp_path, "sailing", "Reef early.")
    model = ScriptedModel("aye")
    async with loaded(tmp_path, mode, model) as setup:
        result = await setup.say(way, "how?", skills=["sailing"])
        await setup.say(way, "and now?")
        with pytest.raises(InvalidArgumentError, match="known: sailing"):
            await setup.say(way, "fly", skills=["flying"])
        assert "Reef" not in str(await setup.transcript())
    assert [message.text for message in result.messages] == ["how?", "aye"]
    assert "Reef early." in model.shown[0][0].text
    assert "Reef" not in str([message.text for message in model.shown[1]])
    assert len(model.shown) == 2
    with closing(sqlite3.connect(tmp_path / ".recollect" / "recollect.db")) as database:
        assert not any("Reef" in line for line in database.iterdump())


@both_ways
@pytest.mark.parametrize("name", ["", "a\0b", "x" * 513, 5])
async def test_a_session_that_no_thread_could_be_is_refused_by_its_name(
    tmp_path: Path,
    way: Way,
    name: Any,  # noqa: ANN401 - wrong on purpose
) -> None:
    """The error speaks of the session, which the caller knows, and no model is asked."""
    model = ScriptedModel("never")
    async with loaded(tmp_path, "curated", model) as setup:
        with pytest.raises(InvalidArgumentError) as refused:
            await setup.say(way, "hello", name)
    assert (refused.value.argument, model.shown) == ("session_id", [])


@both_modes
@both_ways
async def test_a_blocked_prompt_touches_nothing(tmp_path: Path, mode: str, way: Way) -> None:
    """No model, no session, no file, no gateway."""
    model = ScriptedModel("never")
    guards: list[Any] = [{"name": "PIIDetector", "strategy": "block"}]
    async with loaded(tmp_path, mode, model, guards=guards) as setup:
        result = await setup.say(way, "I am ada@example.org")
        assert await setup.transcript() == []
        assert setup.gateway.requests == []
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "pii"
    assert (result.text, result.saved) == ("", False)
    assert model.shown == []
    assert not (tmp_path / ".recollect" / "memories").exists()


@both_modes
@both_ways
async def test_a_model_that_fails_is_raised_and_nothing_is_kept(tmp_path: Path, mode: str, way: Way) -> None:
    """The next run works."""
    async with loaded(tmp_path, mode, ScriptedModel([ValueError("boom"), "fine"])) as setup:
        with pytest.raises((ModelError, ValueError)):
            await setup.say(way, "hello")
        result = await setup.say(way, "again")
        assert result.text == "fine"
        assert await setup.transcript() == [("user", "again"), ("assistant", "fine")]


@both_modes
@both_ways
async def test_a_store_that_cannot_be_opened_costs_no_answer(tmp_path: Path, mode: str, way: Way) -> None:
    """The chat goes on without its session, and says that it was not saved."""
    (tmp_path / ".recollect").mkdir()
    (tmp_path / ".recollect" / "recollect.db").write_bytes(b"this is no database" * 100)
    async with loaded(tmp_path, mode, ScriptedModel("fine")) as setup:
        result = await setup.say(way, "hello")
    assert (result.text, result.saved) == ("fine", False)
    assert any(entry.error for entry in result.trace)


@both_modes
async def test_the_tools_of_a_mode(tmp_path: Path, mode: str) -> None:
    """`memory` in curated mode only, `session_search` in both, and those of the file."""
    async with loaded(tmp_path, mode, ScriptedModel("fine"), tools=["json:dumps"]) as setup:
        names = set(setup.runtime.tool_names)
        assert json.dumps in setup.runtime.tools
    assert names == {"dumps", "session_search"} | ({"memory"} if mode == "curated" else set())


@both_modes
async def test_the_status_shows_the_configuration_without_secrets(tmp_path: Path, mode: str) -> None:
    """It is JSON, and a password in the store's URL is hidden."""
    async with loaded(tmp_path, mode, ScriptedModel("x"), guards=["PIIDetector"]) as setup:
        status = setup.runtime.status()
    shown = json.dumps(status)
    assert status["mode"] == mode
    assert status["guards"] == ["PIIDetector"]
    assert status["model"] == "ScriptedModel"  # the one that answers, not the one in the file
    assert "uk_" not in shown
    file = tmp_path / ".recollect" / "config.json"
    file.write_text('{"store": "postgresql://me:hunter2@db/talk"}', "utf-8")
    store = EngineLoader(tmp_path).load().status()["store"]
    assert store == "postgresql://me:**********@db/talk"


def test_invalid_gateway_configuration_fails_loading(tmp_path: Path) -> None:
    """Before anything is opened."""
    file = tmp_path / "config.json"
    file.write_text(
        '{"memory": {"mode": "memory_gateway", "gateway": {"baseUrl": "http://127.0.0.1", "userKey": "k"}}}',
        "utf-8",
    )
    with pytest.raises(ConfigError, match=r"memory\.gateway\.userId: is missing or empty"):
        EngineLoader(file).load()
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@both_modes
async def test_session_keeps_what_was_received_when_a_stream_is_left(tmp_path: Path, mode: str) -> None:
    """Long-term memory gets nothing of it: half an answer is no answer."""
    model = ScriptedModel(["a long answer in many chunks", "fine"], chunk_size=2)
    async with loaded(tmp_path, mode, model) as setup:
        async with setup.runtime.loop.stream("hello", "s1") as stream:
            async for event in stream:
                if event.type == "text":
                    break
        assert stream.session_id == "s1"
        assert await setup.transcript() == [("user", "hello"), ("assistant", "a ")]
        assert "add" not in setup.gateway.operations
        assert (await setup.say("stream", "again")).text == "fine"


@both_modes
async def test_a_run_that_is_sent_again_is_answered_from_the_session(tmp_path: Path, mode: str) -> None:
    """The model is not asked twice, and nothing is persisted twice."""
    model = ScriptedModel(["one", "two"])
    async with loaded(tmp_path, mode, model) as setup:
        first = await setup.runtime.loop.run("hello", "s1", run_id="r1")
        again = await setup.runtime.loop.run("hello", "s1", run_id="r1")
        assert setup.gateway.operations.count("add") == (1 if mode == "memory_gateway" else 0)
    assert (first.text, again.text) == ("one", "one")
    assert len(model.shown) == 1


@both_modes
async def test_the_current_session_is_not_what_session_search_finds(tmp_path: Path, mode: str) -> None:
    """Other sessions are; hidden events never are."""
    call = ToolCall("c1", "session_search", {"query": "boiler recall succeeded"})
    model = ScriptedModel(["noted", "noted", call, "done"])
    async with loaded(tmp_path, mode, model) as setup:
        await setup.say("run", "the boiler was repaired by Ines", "monday")
        await setup.say("run", "the boiler is loud", "tuesday")
        result = await setup.say("run", "who repaired the boiler?", "tuesday")
    found = str([answer.content for message in result.messages for answer in message.tool_results])
    assert "Ines" in found
    assert "loud" not in found
    assert "memory_gateway" not in found


async def test_both_modes_never_mix(tmp_path: Path) -> None:
    """After a change of mode and a reload the other memory is neither read nor written."""
    add = ToolCall("c1", "memory", {"target": "user", "action": "add", "content": "likes tea"})
    async with loaded(tmp_path, "curated", ScriptedModel([add, "noted"])) as setup:
        await setup.say("run", "I like tea")
        assert setup.curated("USER.md") == "likes tea"
        assert setup.gateway.requests == []
    model = ScriptedModel("fine")
    async with loaded(tmp_path, "memory_gateway", model) as setup:
        await setup.say("run", "hello")
        assert "likes tea" not in str([message.text for message in model.shown[0]])
        assert setup.gateway.operations == ["search", "add", "flush"]


async def test_sessions_are_found_when_the_mode_has_changed(tmp_path: Path) -> None:
    """They belong to the folder: history, search and the list of sessions do not ask which memory it has."""
    for mode in ("curated", "memory_gateway", "curated"):
        model = ScriptedModel("fine")
        async with loaded(tmp_path, mode, model) as setup:
            await setup.say("run", f"My boat is red, says {mode}.")
            (session,) = await setup.runtime.loop.sessions.recent()
        assert session.id == "s1"
    assert session.message_count == 6
    assert [m.text for m in model.shown[0] if m.role == "user"] == [
        "My boat is red, says curated.",
        "My boat is red, says memory_gateway.",
        "My boat is red, says curated.",
    ]


def read_tree(folder: Path) -> bytes:
    """Return all bytes of all files below a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@both_modes
async def test_nothing_of_the_user_is_left_in_the_folder_when_it_is_erased(tmp_path: Path, mode: str) -> None:
    """Sessions, `USER.md` with its copies, log and queue go; what was not reached is named."""
    notes = [call_to_add("Her name is Rosebud.", "user")]
    async with loaded(tmp_path, "curated", ScriptedModel([notes, "noted"])) as setup:
        await setup.say("run", "I am Rosebud.")
    memories = tmp_path / ".recollect" / "memories"
    (memories / "USER.md.0123456789ab.bak").write_text("Her name is Rosebud.")
    (memories / "pending.json").write_text("[]")
    write_notes(tmp_path, "MEMORY.md", "Uses make.")
    async with loaded(tmp_path, mode, ScriptedModel("fine")) as setup:
        report = await setup.runtime.erase()
        assert await setup.transcript() == []
        assert (await setup.say("run", "hello")).saved
        url = setup.gateway.url
    assert b"Rosebud" not in read_tree(tmp_path)
    names = ["USER.md", "USER.md.0123456789ab.bak", "changes.jsonl", "pending.json"]
    assert [Path(path).name for path in report.files] == names
    assert report.rows.counts["messages"] == 4
    own_notes, *others = report.not_reached
    assert own_notes.startswith(f"{memories / 'MEMORY.md'}: ")
    assert [url in other and "'ada'" in other for other in others] == [True] * (mode == "memory_gateway")


async def test_erasing_reports_no_files_when_there_is_no_curated_folder(tmp_path: Path) -> None:
    """A second erasure finds nothing, and raises nothing; links are followed to what they name."""
    async with loaded(tmp_path, "curated", ScriptedModel("fine")) as setup:
        assert (await setup.runtime.erase()).files == ()
        memories = tmp_path / ".recollect" / "memories"
        memories.mkdir()
        (tmp_path / "user.md").write_text("Her name is Rosebud.")
        (memories / "USER.md").symlink_to(tmp_path / "user.md")
        assert (await setup.runtime.erase()).to_dict()["files"] == [str(memories / "USER.md")]
        assert (await setup.runtime.erase()).files == ()
    assert b"Rosebud" not in read_tree(tmp_path)


async def test_file_stays_erased_when_a_run_was_under_way(tmp_path: Path) -> None:
    """What the model wanted to note is not written after the erasure, and the session keeps nothing."""
    call = call_to_add("Her name is Rosebud.", "user")
    model = ScriptedModel(["fine", [call], "noted"], chunk_size=2)
    async with loaded(tmp_path, "curated", model) as setup:
        await setup.say("run", "hello")
        stream = setup.runtime.loop.stream("I am Rosebud.", "s1")
        async for event in stream:
            if event.type == "tool_result":
                await setup.runtime.erase()
        result = await stream.result()
        assert (result.text, result.saved) == ("noted", False)
        assert await setup.transcript() == []
    assert b"Rosebud" not in read_tree(tmp_path)
