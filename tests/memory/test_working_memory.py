"""Working memory over whole turns of an agent, and through the methods of `Memory`."""

import logging

import pytest
from pydantic import BaseModel
from tests.memory.profiles import NotingModel
from tests.support.agents import ADA, Mode, answer, both_modes, model_of, texts
from tests.support.guards import Moderation
from tests.support.traps import ResultTrap

from recollect import Agent, ConflictError, InvalidArgumentError, Memory, Scope, Store, WorkingMemory
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Profile(BaseModel):
    """A user."""

    name: str
    age: int


@both_modes
class TestTurns:
    """Working memory over whole turns of an agent."""

    async def test_model_is_asked_at_most_twice_a_turn(self, store: Store, mode: Mode) -> None:
        """One request, and one more if the answer does not fit; the requests and tokens are the run's."""
        model = NotingModel({"name": "Ann"}, "I would rather chat", "no", {"name": 5})
        memory = Memory(store, working_memory={"schema": Profile, "extractor": model.model})
        agent = Agent(model_of("ok", mode=mode), memory=memory)
        for count in (1, 3, 5):
            before = len(model.prompts)
            result = await answer(agent, mode, "hello", **ADA)
            assert len(model.prompts) == count
            assert result.usage.requests == 1 + count - before
            assert result.usage.output_tokens > 0
            assert result.saved
            assert result.text == "ok"
        assert await memory.get_working_memory(**ADA) == {"name": "Ann"}

    @pytest.mark.parametrize(
        "text", ['{"name": "Ann"}', '```json\n{"name": "Ann"}\n```', ' {"name": "Ann"}\n']
    )
    async def test_plain_json_is_accepted(self, store: Store, mode: Mode, text: str) -> None:
        """A model that writes JSON as text, and calls no tool, is understood at once."""
        model = NotingModel(text)
        memory = Memory(store, working_memory={"schema": Profile, "extractor": model.model})
        await answer(Agent(model_of("ok", mode=mode), memory=memory), mode, "hello", **ADA)
        assert await memory.get_working_memory(**ADA) == {"name": "Ann"}
        assert len(model.prompts) == 1

    async def test_scripted_model_plays_the_extraction(self, store: Store, mode: Mode) -> None:
        """Replies are for the prompts, answers for the questions of processors."""
        model = ScriptedModel("Hello.", answers=['{"name": "Ann"}', {"age": 7}])
        memory = Memory(store, working_memory={"schema": Profile})
        agent = Agent(model, memory=memory)
        await answer(agent, mode, "I am Ann.", **ADA)
        result = await answer(agent, mode, "I am seven.", **ADA)
        assert await memory.get_working_memory(**ADA) == {"name": "Ann", "age": 7}
        assert result.usage.requests == 2
        assert "I am Ann." in model.asked[0]

    async def test_injected_memory_is_never_extracted(self, store: Store, mode: Mode) -> None:
        """What memory put into the prompt is not taken for something that somebody said."""
        conversations: list[str] = []

        def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
            conversations.append(conversation)
            return {"name": f"{current.get('name', '')}x"}

        memory = Memory(store, working_memory={"template": "Name: {{name}}", "extractor": note})
        await memory.update_working_memory({"name": "UNIQUE"}, **ADA)
        model = model_of("ok", mode=mode)
        agent = Agent(model, memory=memory)
        for _ in range(3):
            await answer(agent, mode, "hello", **ADA)
        assert all("UNIQUE" in shown[0].text for shown in model.shown)
        assert conversations == ["user: hello\nassistant: ok"] * 3

    @pytest.mark.parametrize("case", ["moderation", "trap after memory", "error after memory"])
    async def test_blocked_or_failed_turn_changes_nothing(self, store: Store, mode: Mode, case: str) -> None:
        """Wherever the block stands, nothing is asked and nothing written."""
        model = NotingModel({"email": "x"})
        memory = Memory(store, working_memory={"template": "{{email}}", "extractor": model.model})
        lists = {
            "moderation": [Moderation(), memory],
            "trap after memory": [memory, ResultTrap()],
            "error after memory": [memory, ResultTrap(ValueError("broken"))],
        }
        agent = Agent(model_of("an awful thing", mode=mode), output_processors=lists[case])
        if case == "error after memory":
            with pytest.raises(ValueError, match="broken"):
                await answer(agent, mode, "hi", **ADA)
        else:
            assert (await answer(agent, mode, "hi", **ADA)).tripwire
        assert model.prompts == []
        assert (await memory.get_working_memory(**ADA)).version == 0
        assert [line async for line in store.export(scope=Scope(None, "ada"))][1].startswith('{"kind": "end"')

    async def test_failed_extraction_spoils_neither_answer_nor_saving(
        self, store: Store, mode: Mode, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The turn is kept; the trace and the log say what went wrong."""

        def fail(_: str, __: dict[str, object]) -> dict[str, object]:
            raise OSError("no network")

        memory = Memory(store, working_memory={"template": "{{email}}", "extractor": fail})
        agent = Agent(model_of("ok", mode=mode), memory=memory)
        with caplog.at_level(logging.WARNING, logger="recollect"):
            result = await answer(agent, mode, "hi", on_memory_error="raise", **ADA)
        assert (result.text, result.saved) == ("ok", True)
        entry = result.trace.find("working-memory", "commit")
        assert entry is not None
        assert entry.error == "OSError"
        assert "working-memory leaves working memory as it was: OSError" in caplog.text
        assert len(await memory.get_messages(**ADA)) == 2

    async def test_extraction_is_skipped_when_the_model_is_offline(
        self, mode: Mode, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A model that cannot be asked is no failure: the trace says so, and the rest works."""
        async with Memory(working_memory="Name: {{name}}") as memory:
            await memory.update_working_memory({"name": "Ann"})
            result = await answer(Agent("offline", memory=memory), mode, "What is my name?")
            assert "Name: Ann" in result.text
            assert await memory.get_working_memory() == {"name": "Ann"}
        entry = result.trace.find("working-memory", "commit")
        assert entry is not None
        assert len(entry.notes) == 1
        assert entry.notes[0].startswith("the extraction was skipped: local models")
        assert (result.saved, entry.error, caplog.text) == (True, None, "")

    async def test_replayed_run_is_not_learned_from_again(self, store: Store, mode: Mode) -> None:
        """A run that is sent again asks nobody anything."""
        model = NotingModel({"email": "a"}, {"email": "b"})
        memory = Memory(store, working_memory={"template": "{{email}}", "extractor": model.model})
        agent = Agent(model_of("ok", mode=mode), memory=memory)
        results = [await answer(agent, mode, "hi", run_id="again", **ADA) for _ in range(2)]
        assert [result.saved for result in results] == [True, True]
        assert len(model.prompts) == 1
        assert await memory.get_working_memory(**ADA) == {"email": "a"}


class TestApi:
    """Working memory through `Memory`."""

    async def test_value_reads_as_attributes_and_keys(self, store: Store) -> None:
        """An empty one knows its fields; a misspelt one is an error."""
        memory = Memory(store, user_id="ada", working_memory="- **First Name**:\n- City:")
        known = await memory.get_working_memory()
        assert isinstance(known, WorkingMemory)
        assert (known.first_name, known.city, known.version) == (None, None, 0)
        known = await memory.update_working_memory({"first_name": "Ann"})
        assert (known.first_name, known["first_name"], known.city) == ("Ann", "Ann", None)
        with pytest.raises(AttributeError):
            _ = known.name

    async def test_history_can_be_read_and_restored(self, store: Store) -> None:
        """What was wiped comes back; clearing forgets it for good."""
        memory = Memory(store, user_id="ada", working_memory="{{name}}")
        await memory.update_working_memory({"name": "Ann"})
        await memory.update_working_memory({"name": None})
        history = await memory.working_memory_history()
        assert [(m.version, m.name) for m in history] == [(2, None), (1, "Ann")]
        assert [m.version for m in await memory.working_memory_history(limit=1)] == [2]
        assert (await memory.restore_working_memory(1)).name == "Ann"
        assert await memory.clear_working_memory() == 3
        assert (await memory.get_working_memory()).version == 0

    async def test_change_must_fit_the_template(self, store: Store) -> None:
        """A field that the template does not have is refused, and nothing is written."""
        memory = Memory(store, user_id="ada", working_memory={"schema": Profile})
        with pytest.raises(InvalidArgumentError, match="'city' is not a field"):
            await memory.update_working_memory({"name": "Ann", "city": "Rome"})
        with pytest.raises(InvalidArgumentError, match="age"):
            await memory.update_working_memory({"age": "old"})
        assert (await memory.get_working_memory()).version == 0

    async def test_memory_without_a_template_takes_any_field(self, store: Store) -> None:
        """The user's fields can be kept without showing them to a model."""
        memory = Memory(store, user_id="ada")
        await memory.update_working_memory({"a": 1, "b": 2})
        known = await memory.update_working_memory({"c": 3}, strategy="replace", expected_version=1)
        assert (known, known.c) == ({"c": 3}, 3)
        with pytest.raises(ConflictError, match="is at version 2, not 1"):
            await memory.update_working_memory({"c": 4}, expected_version=1)
        assert (memory.get_tools(), await memory.settled()) == ([], None)
        assert [p.id for p in memory.get_output_processors()] == ["message-persistence"]

    async def test_scope_says_whose_it_is(self, store: Store) -> None:
        """The user's spans threads; a thread's does not, and goes with the thread."""
        hers = Memory(store, tenant_id=None, resource_id="ada", working_memory="{{name}}")
        here = Memory(
            store,
            tenant_id=None,
            resource_id="ada",
            working_memory={"template": "{{name}}", "scope": "thread"},
        )
        await hers.update_working_memory({"name": "user"}, thread_id="a")
        await here.update_working_memory({"name": "thread"}, thread_id="a")
        assert (await hers.get_working_memory(thread_id="b")).name == "user"
        assert (await here.get_working_memory(thread_id="b")).name is None
        await here.delete_thread("a")
        assert (await here.get_working_memory(thread_id="a")).name is None
        assert (await hers.get_working_memory()).name == "user"

    @pytest.mark.parametrize(
        ("option", "problem"),
        [
            (True, "working_memory: must be a template"),
            (5, "working_memory: must be a template"),
            ("nothing to fill in", "has no fields"),
            ({}, "either a template or a schema"),
            ({"templates": "{{a}}"}, "'templates' is not an option; use template"),
            ({"type": "object", "properties": {}}, "'properties' is not an option"),
            (int, "Pydantic model class"),
            ({"template": "{{a}}", "scope": "galaxy"}, "scope: must be one of"),
        ],
        ids=str,
    )
    async def test_wrong_option_is_refused(self, option: object, problem: str) -> None:
        """What is wrong is said when the memory is made."""
        with pytest.raises(InvalidArgumentError, match=problem):
            Memory(working_memory=option)

    async def test_model_class_alone_is_a_schema(self) -> None:
        """The short form; off is off."""
        async with Memory(working_memory=Profile) as memory:
            assert (await memory.update_working_memory({"age": "5"})).age == 5
        for nothing in (None, False):
            assert len(Memory(working_memory=nothing).get_input_processors()) == 1

    async def test_legacy_processors_see_it(self) -> None:
        """Legacy processors see it in the memory's system message."""
        seen: list[str] = []

        class Legacy:
            def process(self, messages: list[object], **rest: object) -> list[object]:
                seen.append(str(rest["memory_system_message"]))
                return messages

        with pytest.warns(DeprecationWarning, match="is deprecated"):
            memory = Memory(working_memory="{{name}}", processors=[Legacy()])  # pyright: ignore[reportArgumentType] - a plain one
        async with memory:
            await memory.update_working_memory({"name": "UNIQUE"})
            result = await Agent(model_of("ok"), memory=memory).generate("hi")
        assert "UNIQUE" in seen[0]
        assert texts(result.messages) == [("user", "hi"), ("assistant", "ok")]
