"""What a run gives to its processors and to the tools of memory."""

import pytest
from tests.support.contexts import context, new_run

from recollect import Agent, Processor, RecollectError, RunContext, ToolCall, TripWire
from recollect.messages import Message
from recollect.pipeline.context import bind_tools, get_kept_call, tool_context
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def test_a_tool_of_memory_cannot_be_called_outside_a_run() -> None:
    """There is nobody whose memory it could be about; the error says who may call it."""
    with pytest.raises(RecollectError, match="the tool of notes can only be called by the model"):
        tool_context("notes")
    assert get_kept_call() is None


def test_a_tool_shares_the_state_of_its_owner_within_a_run() -> None:
    """It sees the run, the owner's state, and the call as guards let it be kept."""
    run, call = new_run(resource_id="ada"), ToolCall("c1", "note")
    with bind_tools(run, call):
        ctx = tool_context("notes")
        ctx.state["written"] = 1
        assert (ctx.ids.user_id, get_kept_call()) == ("ada", call)
    assert context(run, "result", "notes").state == {"written": 1}
    assert get_kept_call() is None


async def test_what_the_caller_hands_to_a_run_reaches_its_processors_and_no_model() -> None:
    """`context=` is for processors alone."""

    class Reads(Processor):
        id = "reads"
        seen: object = None

        async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
            self.seen = ctx.context["plan"]
            return messages

    reads, model = Reads(), ScriptedModel("fine")
    await Agent(model, input_processors=[reads]).generate("hi", context={"plan": "gold"})
    assert reads.seen == "gold"
    assert "gold" not in str(model.shown)


def test_trip_is_json() -> None:
    """What stopped a run can be logged or sent as it stands."""
    trip = TripWire("no", metadata={"types": {"ssn"}}, processor_id="guard")
    assert trip.to_dict() == {
        "reason": "no",
        "processor_id": "guard",
        "metadata": {"types": ["ssn"]},
        "released": 0,
    }


def test_reason_is_made_up_when_a_processor_gives_none() -> None:
    """It names the processor where it is known."""
    with pytest.raises(TripWire, match=r"^tested stopped the run$"):
        context(new_run()).abort()
    assert TripWire().reason == "a processor stopped the run"
