"""The tool by which a model changes working memory: after the guards, with the turn, or not at all."""

from typing import Any

import pytest
from tests.memory.profiles import NotingModel
from tests.support.agents import ADA, Mode, answer, both_modes, model_of
from tests.support.guards import EmailGuard, Moderation
from tests.support.traps import CallTrap, ResultTrap

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    MessagePersistenceProcessor,
    Scope,
    StorageError,
    Store,
    ToolCall,
    WorkingMemoryProcessor,
)
from recollect.agent.provider import ModelProvider
from recollect.pipeline.processor import Processor

pytestmark = [pytest.mark.anyio, both_modes]

OPTIONS: dict[str, Any] = {"template": "Email: {{email}}\nCity: {{city}}", "tool": True}


def call(changes: object, number: int = 1) -> ToolCall:
    """Return a call of the tool."""
    return ToolCall(f"call-{number}", "update_working_memory", {"changes": changes})


async def test_model_changes_working_memory_by_the_tool(store: Store, mode: Mode) -> None:
    """Several calls of one turn are applied in order; null deletes; no other question is asked."""
    memory = Memory(store, working_memory=OPTIONS)
    await memory.update_working_memory({"city": "Rome"}, **ADA)
    script = [[call({"email": "a"}), call({"email": "b", "city": None}, 2)], "Noted."]
    agent = Agent(model_of(*script, mode=mode), memory=memory)
    result = await answer(agent, mode, "I moved", **ADA)
    known = await memory.get_working_memory(**ADA)
    assert (known, known.run_id, result.saved) == ({"email": "b"}, result.run_id, True)
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_arguments_are_redacted_by_an_output_guard(store: Store, mode: Mode) -> None:
    """What is kept is the call as it left the guards, wherever memory stands in the list."""
    for place in (0, 1):
        memory = Memory(store, resource_id=f"user{place}", tenant_id=None, working_memory=OPTIONS)
        guards: list[Any] = [memory]
        guards.insert(place, EmailGuard())
        agent = Agent(
            model_of(call({"email": "john@example.com"}), "ok", mode=mode), output_processors=guards
        )
        await answer(agent, mode, "note it")
        assert (await memory.get_working_memory()).email == "***@***.***"
        lines = [line async for line in store.export(scope=Scope(None, f"user{place}"))]
        assert "john@" not in "".join(lines)


@pytest.mark.parametrize("guard", [CallTrap, ResultTrap, Moderation])
async def test_blocked_turn_leaves_nothing(store: Store, mode: Mode, guard: type[Processor]) -> None:
    """A trip on the call, on the result or on the text: no field is written, and no user becomes known."""
    memory = Memory(store, working_memory=OPTIONS)
    agent = Agent(
        model_of(call({"email": "a"}), "an awful thing", mode=mode),
        memory=memory,
        output_processors=[guard()],
    )
    result = await answer(agent, mode, "note it", **ADA)
    assert result.tripwire
    assert (await memory.get_working_memory(**ADA)).version == 0
    assert (await store.erase(scope=Scope(None, "ada"))).total == 0


async def test_invalid_changes_are_reported_to_the_model_and_not_stored(store: Store, mode: Mode) -> None:
    """Unknown fields, something that is no object, or a missing argument: the tool says what is wrong."""
    memory = Memory(store, working_memory=OPTIONS)
    wrong = ToolCall("call-3", "update_working_memory", {"note": "x"})
    script = [[call({"shoe": 44}), call("text", 2), wrong, call({"email": "", "city": None}, 4)], "Sorry."]
    model = model_of(*script, mode=mode)
    result = await answer(Agent(model, memory=memory), mode, "note it", **ADA)
    results = [part for message in result.messages for part in message.tool_results]
    assert [part.is_error for part in results] == [True, True, True, False]
    assert "'shoe' is not a field of this working memory; known: email, city" in str(results[0].content)
    assert (await memory.get_working_memory(**ADA)).version == 0


async def test_refused_change_is_not_kept_when_its_id_is_used_again(store: Store, mode: Mode) -> None:
    """Some models count their calls from the beginning in every step."""
    memory = Memory(store, working_memory=OPTIONS)
    script = [call({"email": "a", "shoe": 44}), call({"city": "Rome"}), "Noted."]
    await answer(Agent(model_of(*script, mode=mode), memory=memory), mode, "note it", **ADA)
    assert await memory.get_working_memory(**ADA) == {"city": "Rome"}


async def test_change_that_is_invalid_after_the_guard_is_rejected(store: Store, mode: Mode) -> None:
    """The tool took it, but what the guard left of it does not fit: traced, and nothing written."""
    schema = {"properties": {"email": {"type": "string", "pattern": "example"}}}
    memory = Memory(store, working_memory={"schema": schema, "tool": True})
    agent = Agent(
        model_of(call({"email": "a@example.com"}), "ok", mode=mode),
        memory=memory,
        output_processors=[EmailGuard()],
    )
    result = await answer(agent, mode, "note it", **ADA)
    entry = result.trace.find("working-memory", "commit")
    assert entry is not None
    assert "does not match the pattern" in (entry.error or "")
    assert (result.saved, (await memory.get_working_memory(**ADA)).version) == (True, 0)


async def test_tool_and_extraction_together_when_both_are_asked_for(store: Store, mode: Mode) -> None:
    """The extraction is shown what the tool has just noted."""
    model = NotingModel({"city": "Rome"})
    options = OPTIONS | {"extract": "before", "extractor": model.model}
    memory = Memory(store, working_memory=options)
    agent = Agent(model_of(call({"email": "a"}), "ok", mode=mode), memory=memory)
    await answer(agent, mode, "note it", **ADA)
    assert await memory.get_working_memory(**ADA) == {"email": "a", "city": "Rome"}
    assert '{"email": "a"}' in model.prompts[0]


async def test_tool_is_there_once_wherever_memory_stands(store: Store, mode: Mode) -> None:
    """As `memory=`, in both lists, or spelled out; not where memory could not write."""
    memory = Memory(store, tenant_id=None, working_memory=OPTIONS)
    agents = [
        Agent(model_of("x"), memory=memory),
        Agent(model_of("x"), input_processors=[memory], output_processors=[memory]),
        Agent(model_of("x"), memory=memory, output_processors=[memory]),
        Agent(
            model_of("x"),
            input_processors=memory.get_input_processors(),
            output_processors=memory.get_output_processors(),
        ),
        Agent(model_of("x"), output_processors=[WorkingMemoryProcessor(store, **OPTIONS)]),
    ]
    for agent in agents:
        assert len(agent._tools) == 1  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what the engine is given
    assert Agent(model_of("x"), input_processors=[memory])._tools == ()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the same
    assert [tool.__name__ for tool in memory.get_tools()] == ["update_working_memory"]
    twice = Agent(model_of("x"), tools=memory.get_tools(), memory=memory)
    with pytest.raises(InvalidArgumentError, match="two tools are called 'update_working_memory'"):
        await answer(twice, mode, "hi")


async def test_tool_is_described_with_its_fields(mode: Mode) -> None:
    """A template that looks like the sections of a docstring does not confuse the description."""
    del mode
    template = "Args:\n- Name:\nReturns:\n    x: y\n- City:"
    (tool,) = WorkingMemoryProcessor("sqlite://", template=template, tool=True).get_tools()
    (description,) = ModelProvider("offline", [tool])._tools.values()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what the model is told
    assert '["name", "city"]' in (description.description or "")
    assert list(description.function_schema.json_schema["properties"]) == ["changes"]


async def test_turn_is_not_saved_when_the_tools_write_fails(store: Store, mode: Mode) -> None:
    """A change that the tool accepted but the commit rejected is reported to the caller."""
    persistence = MessagePersistenceProcessor(store, **ADA)
    processor = WorkingMemoryProcessor("sqlite:////no/such/folder/x.db", **OPTIONS, **ADA)

    def agent() -> Agent:
        model = model_of(call({"email": "a"}), "ok", mode=mode)
        return Agent(model, output_processors=[persistence, processor])

    result = await answer(agent(), mode, "note it")
    assert (result.text, result.saved) == ("ok", False)
    entry = result.trace.find("working-memory", "commit")
    assert entry is not None
    assert "StorageUnavailableError" in (entry.error or "")
    with pytest.raises(StorageError):
        await answer(agent(), mode, "note it", on_memory_error="raise")
