"""Names and ids of tool calls, in which a model may put what it should not: cleaned, and still paired."""

from typing import Literal

import pytest
from tests.support.agents import Mode, answer, both_modes, events_of, model_of
from tests.support.contexts import context, new_run

from recollect import Agent, Memory, Message, PIIDetector, ToolCall, ToolResult
from recollect.testing import ScriptedModel
from recollect.tool_pairs import pair_calls

pytestmark = pytest.mark.anyio

ADDRESS, OTHER = "ada@example.org", "bob@example.org"
TURN = [
    Message("assistant", [ToolCall(ADDRESS, "mail", {"n": 1}), ToolCall(OTHER, f"mail {ADDRESS}")]),
    Message("tool", [ToolResult(OTHER, f"mail {ADDRESS}", "two"), ToolResult(ADDRESS, "mail", "one")]),
]


def mail(n: int = 0) -> str:
    """Send a mail."""
    return f"sent {n}"


@both_modes
async def test_call_and_result_stay_paired_when_their_ids_and_names_are_personal(mode: Mode) -> None:
    """The model is shown its own ids; what is stored has others, each for one call and its result."""
    async with Memory() as memory:
        calls = [ToolCall(ADDRESS, "mail", {"n": 1}), ToolCall(OTHER, f"mail_{ADDRESS}", {"n": 2})]
        model = model_of([*calls], "Done.", mode=mode)
        agent = Agent(model, tools=[mail], memory=memory, output_processors=[PIIDetector()])
        result = await answer(agent, mode, "go")
        stored = await memory.get_messages()
    assert result.text == "Done."
    pairs = list(pair_calls(stored))
    assert len({pair.call.id for pair in pairs}) == len(pairs) == 2
    assert pairs[0].result.content == "sent 1"
    assert [pair.call.name for pair in pairs] == ["mail", "redacted"]
    assert ADDRESS not in repr([message.parts for message in stored])
    assert OTHER not in repr([message.parts for message in stored])


async def test_events_and_trace_show_no_id_when_it_is_personal() -> None:
    """What is shown of a call is what is stored, and the trace names it by its new id."""
    model = ScriptedModel([[ToolCall(ADDRESS, "mail")], "Done."])
    agent = Agent(model, tools=[mail], output_processors=[PIIDetector()])
    events = await events_of(agent, "go")
    result = events[-1].result
    assert result is not None
    shown = [event.tool_call or event.tool_result for event in events if event.type.startswith("tool")]
    assert shown == [ToolCall("redacted", "mail"), ToolResult("redacted", "mail", "sent 0")]
    assert ADDRESS not in repr([*result.trace])


@pytest.mark.parametrize("call", [ToolCall(ADDRESS, "mail"), ToolCall("c", f"mail {ADDRESS}")])
async def test_no_tool_runs_when_an_id_or_a_name_is_blocked(call: ToolCall) -> None:
    """The run stops before the tool is called."""
    sent: list[str] = []

    def mail() -> None:
        sent.append("one")

    agent = Agent(ScriptedModel([[call], "Done."]), tools=[mail], output_processors=[PIIDetector("block")])
    result = await agent.generate("go")
    assert result.tripwire is not None
    assert result.tripwire.metadata["types"] == ["email"]
    assert sent == []


@pytest.mark.parametrize("method", ["mask", "placeholder", "hash", "remove"])
async def test_messages_of_the_prompt_stay_paired_when_their_ids_are_personal(
    method: Literal["mask", "placeholder", "hash", "remove"],
) -> None:
    """Ids are of letters, digits, `_` and `-`, which models accept, by every method."""
    guard = PIIDetector(method=method)
    ctx = context(new_run())
    sent = [message.replace(origin="input") for message in TURN]
    after = await guard.process_input(sent, ctx)
    pairs = list(pair_calls(after))
    assert [pair.result.content for pair in pairs] == ["two", "one"]
    names = {name for pair in pairs for name in (pair.call.id, pair.result.name)}
    assert len({pair.call.id for pair in pairs}) == 2
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)
    assert await guard.process_output_result(after, ctx) == after


@pytest.mark.parametrize(
    "call_id",
    [
        "function-call-4111111111111111",
        "call_AB123456C0123456789abcdef",
        "0f8fad5b-d9cb-469f-a165-415555013299",
        "chatcmpl-tool-4111111111111111aaaaaaaaaaaaaaaa",
    ],
)
async def test_id_stays_when_it_is_one_that_providers_make(call_id: str) -> None:
    """Random digits may look like a number of something."""
    call = ToolCall(call_id, "mail")
    assert await PIIDetector("block").process_tool_call(call, context(new_run())) == call
