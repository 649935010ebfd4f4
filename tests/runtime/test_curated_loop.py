"""The loop in curated mode: where the snapshot stands, and what is written when."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.runtimes import Way, WireModel, both_ways, call_to_add, loaded, write_notes

from recollect import Message, ToolCall
from recollect.testing import ScriptedModel

pytestmark = [pytest.mark.anyio]


@both_ways
async def test_files_are_written_before_the_run_ends_when_persist_is_after(tmp_path: Path, way: Way) -> None:
    """Only a gateway is told later: what the model has noted is there for whoever reads the files next."""
    model = ScriptedModel([[call_to_add("The boat is red.")], "noted"])
    async with loaded(tmp_path, "curated", model, persist="after") as setup:
        await setup.say(way, "my boat is red")
        assert setup.curated("MEMORY.md") == "The boat is red."


async def test_the_snapshot_is_sent_as_part_of_the_system_prompt(tmp_path: Path) -> None:
    """Not as anybody's words; the rule of the memory stands before it."""
    write_notes(tmp_path, "USER.md", "Her name is Ada.")
    wire = WireModel()
    async with loaded(tmp_path, "curated", wire.model()) as setup:
        await setup.say("run", "hello")
    assert wire.system[0].startswith("Be kind.")
    assert "Her name is Ada." in wire.system[0]
    assert wire.sent == [["hello"]]


@both_ways
async def test_writes_are_committed_with_the_turn_and_not_before(tmp_path: Path, way: Way) -> None:
    """While the model still speaks, the file is as it was."""
    during: list[str] = []

    def look(_: object) -> str:
        during.append(setup.curated("MEMORY.md"))
        return "noted"

    async with loaded(tmp_path, "curated", ScriptedModel([call_to_add("The boat is red."), look])) as setup:
        result = await setup.say(way, "my boat is red")
        assert during == [""]
        assert setup.curated("MEMORY.md") == "The boat is red."
    answer = next(item for message in result.messages for item in message.tool_results)
    assert "'success': True" in str(answer.content)
    assert "The boat is red." not in str(answer.content)


@both_ways
async def test_a_turn_that_trips_or_fails_writes_no_memory(tmp_path: Path, way: Way) -> None:
    """What the tool staged goes with the turn."""
    guards: list[object] = [{"name": "PIIDetector", "strategy": "block", "side": "output"}]
    model = ScriptedModel([call_to_add("The boat is red."), "ada@example.org"])
    async with loaded(tmp_path, "curated", model, guards=guards) as setup:
        assert (await setup.say(way, "my boat is red")).tripwire
        assert setup.curated("MEMORY.md") == ""
    async with loaded(
        tmp_path, "curated", ScriptedModel([call_to_add("The boat is red."), RuntimeError("no")])
    ) as setup:
        with pytest.raises(Exception, match="no"):
            await setup.say(way, "my boat is red")
        assert setup.curated("MEMORY.md") == ""


@both_ways
async def test_what_is_written_is_what_left_the_guards(tmp_path: Path, way: Way) -> None:
    """An address that a guard takes out of the call is not in the file."""
    model = ScriptedModel([call_to_add("Her address is ada@example.org."), "noted"])
    async with loaded(tmp_path, "curated", model, guards=["PIIDetector"]) as setup:
        await setup.say(way, "keep my address")
        assert setup.curated("MEMORY.md") == "Her address is ***@***.***."


async def test_a_change_that_could_not_be_made_is_in_the_trace_and_the_events(tmp_path: Path) -> None:
    """Somebody has changed the file between the call and the end of the turn."""
    write_notes(tmp_path, "MEMORY.md", "The boat is red.")

    def look_away(_: object) -> str:
        write_notes(tmp_path, "MEMORY.md", "The ship is blue.")
        return "gone"

    forget = ToolCall("1", "memory", {"action": "remove", "old_text": "boat"})
    model = ScriptedModel([forget, look_away])
    async with loaded(tmp_path, "curated", model) as setup:
        result = await setup.say("run", "forget my boat")
        (event,) = await setup.events()
        assert setup.curated("MEMORY.md") == "The ship is blue."
    assert (event.name, event.run_id) == ("curated_memory_change_failed", result.run_id)
    assert event.payload == {"operation": "commit", "category": "stale_change"}
    (error,) = [entry.error for entry in result.trace if entry.error]
    assert error.startswith("StaleChangeError: a change no longer fits MEMORY.md and was not made")


async def test_nothing_is_written_without_the_tool(tmp_path: Path) -> None:
    """There is no automatic persistence in curated mode."""
    async with loaded(tmp_path, "curated", ScriptedModel("how nice")) as setup:
        result = await setup.say("run", "my boat is red")
        assert "memory" in setup.runtime.tool_names
        assert await setup.events() == []
    assert result.saved
    assert not (tmp_path / ".recollect" / "memories").exists()


async def test_a_file_that_cannot_be_read_costs_no_answer_and_is_not_touched(tmp_path: Path) -> None:
    """The snapshot has what there is, the trace and the tool say what is wrong, and the bytes stay."""
    write_notes(tmp_path, "USER.md", "Her name is Ada.")
    file = tmp_path / ".recollect" / "memories" / "MEMORY.md"
    file.write_bytes(b"caf\xe9")
    model = ScriptedModel([call_to_add("The boat is red."), "noted"])
    async with loaded(tmp_path, "curated", model) as setup:
        result = await setup.say("run", "my boat is red")
    assert result.text == "noted"
    assert file.read_bytes() == b"caf\xe9"
    (error,) = [entry.error for entry in result.trace if entry.error]
    assert error.startswith("StorageCorruptError")
    assert "MEMORY.md is not UTF-8 text" in error
    assert "Her name is Ada." in model.shown[0][0].text
    answer = next(item for message in result.messages for item in message.tool_results)
    assert '"success": true' not in str(answer.content).lower()


async def test_two_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    """Both entries are there, each once."""

    def reply(messages: object) -> str:
        del messages
        return "noted"

    models = [ScriptedModel([call_to_add(f"Fact {number}."), reply]) for number in range(4)]
    setups = [loaded(tmp_path, "curated", model) for model in models]
    entered = [await setup.__aenter__() for setup in setups]
    try:
        await asyncio.gather(*(item.say("run", "note it", f"s{place}") for place, item in enumerate(entered)))
        text = entered[0].curated("MEMORY.md")
    finally:
        for setup in setups:
            await setup.__aexit__(None, None, None)
    assert sorted(text.split("\n§\n")) == [f"Fact {number}." for number in range(4)]


async def test_the_offline_model_notes_and_recalls(tmp_path: Path) -> None:
    """Without any key: told in one session, known in another, by the files and by the transcripts."""
    async with loaded(tmp_path, "curated", "offline") as setup:
        told = await setup.say("run", "Please remember that my dog is called Rex.", "monday")
        await setup.say("run", "The boiler was repaired by Ines.", "tuesday")
        name = await setup.say("run", "What is my dog called?", "wednesday")
        boiler = await setup.say("run", "Who repaired the boiler?", "thursday")
    assert setup.curated("USER.md") == "my dog is called Rex."
    assert "noted" in told.text.lower()
    assert name.text.endswith(".\n- noted: my dog is called Rex.")
    assert boiler.text.endswith("\n- user said: The boiler was repaired by Ines.")
    assert all(isinstance(message, Message) for message in boiler.messages)
