"""Working memory where turns fail, changes are odd, or background tasks overtake."""

import asyncio
from typing import Any

import pytest
from tests.support.agents import model_of

from recollect import Agent, InvalidArgumentError, Memory, Message, ToolCall

pytestmark = pytest.mark.anyio

TEMPLATE = "{{name}} {{tags}} {{city}}"


def call(changes: dict[str, object]) -> ToolCall:
    """Return a call of the tool."""
    return ToolCall("call-1", "update_working_memory", {"changes": changes})


async def test_nothing_is_noted_when_the_turn_cannot_be_saved() -> None:
    """A message id that is taken keeps the turn out, and so what was noted in it."""
    async with Memory(working_memory={"template": TEMPLATE, "tool": True}) as memory:
        await memory.save_messages([Message("user", "first", id="m1")])
        agent = Agent(model_of([call({"name": "evil"})], "ok"), memory=memory)
        result = await agent.generate([Message("user", "second", id="m1")])
        assert not result.saved
        assert await memory.get_working_memory() == {}


async def test_tool_merges_into_objects_and_deletes_several_fields() -> None:
    """A nested null, a part of an object and two nulls at once are changes like others."""
    schema = {
        "properties": {
            "prefs": {
                "type": "object",
                "properties": {"color": {"type": "string"}, "food": {"type": "string"}},
            },
            "email": {"type": "string", "pattern": "@"},
            "city": {"type": "string"},
        }
    }
    async with Memory(working_memory={"schema": schema, "tool": True}) as memory:
        await memory.update_working_memory(
            {"prefs": {"color": "red", "food": "figs"}, "city": "Rome", "email": "a@b"}
        )
        agent = Agent(
            model_of(
                [call({"prefs": {"color": None}, "email": ""})],
                "ok",
                [call({"city": None, "email": None})],
                "ok",
            ),
            memory=memory,
        )
        await agent.generate("I have no favourite colour")
        assert await memory.get_working_memory() == {
            "prefs": {"food": "figs"},
            "city": "Rome",
            "email": "a@b",
        }
        await agent.generate("forget my city and my address")
        assert await memory.get_working_memory() == {"prefs": {"food": "figs"}}


async def test_later_turn_wins_when_an_earlier_one_is_learned_from_slowly() -> None:
    """What goes on after answers is done in the order of the turns."""
    gates = {"Rome": asyncio.Event(), "Paris": asyncio.Event()}

    async def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
        del current
        city = "Rome" if "Rome" in conversation else "Paris"
        await gates[city].wait()
        return {"city": city}

    options: dict[str, Any] = {"template": TEMPLATE, "extractor": note, "extract": "after"}
    async with Memory(working_memory=options) as memory:
        agent = Agent(model_of("ok"), memory=memory)
        await agent.generate("I live in Rome")
        await agent.generate("I moved to Paris")
        gates["Paris"].set()
        await asyncio.sleep(0.05)
        gates["Rome"].set()
        await memory.settled()
        assert await memory.get_working_memory() == {"city": "Paris"}


async def test_list_is_emptied_when_that_is_all_that_is_said() -> None:
    """An empty list replaces one; in a model's half-filled form it says nothing."""

    def note(conversation: str, current: dict[str, object]) -> dict[str, object]:
        del conversation, current
        return {"city": "Rome", "tags": []}

    options: dict[str, Any] = {"template": TEMPLATE, "extractor": note}
    async with Memory(working_memory=options) as memory:
        await memory.update_working_memory({"tags": ["a"], "name": "Ann"})
        await Agent(model_of("ok"), memory=memory).generate("I live in Rome")
        assert await memory.get_working_memory() == {"tags": ["a"], "name": "Ann", "city": "Rome"}
        await memory.update_working_memory({"tags": []})
        assert (await memory.get_working_memory())["tags"] == []


async def test_same_fields_in_another_order_are_no_new_version() -> None:
    """What changes nothing uses up none of the kept versions."""
    async with Memory(working_memory=TEMPLATE) as memory:
        first = await memory.update_working_memory({"name": "Ann", "city": "Rome"})
        again = await memory.update_working_memory({"city": "Rome", "name": "Ann"}, strategy="replace")
        assert again.version == first.version


async def test_default_is_returned_when_a_known_field_holds_nothing() -> None:
    """`get` agrees with `in`."""
    async with Memory(working_memory=TEMPLATE) as memory:
        known = await memory.get_working_memory()
        assert ("name" in known, known.get("name", "nobody"), known.name) == (False, "nobody", None)


def test_label_may_have_an_underscore() -> None:
    """Labels such as first_name are fields."""
    memory = Memory(working_memory="- **Name**:\n- **first_name**:\n- e_mail:")
    assert memory.get_tools() == []
    with pytest.raises(InvalidArgumentError, match="known: name, first_name, e_mail"):
        asyncio.run(memory.update_working_memory({"shoe": 44}))


@pytest.mark.parametrize(
    "options",
    [{"extractor": 5}, {"extractor": Memory}, {"tool": "yes"}, {"read_only": "no"}, {"extract": False}],
)
def test_option_is_refused_when_it_makes_no_sense(options: dict[str, Any]) -> None:
    """Something truthy is not an answer to yes or no."""
    with pytest.raises(InvalidArgumentError) as raised:
        Memory(working_memory={"template": TEMPLATE, **options})
    assert raised.value.argument in options
