"""The token limiter: answers end at a clean place and stop the model, prompts lose their oldest messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agents import CALL, Mode, answer, both_modes, events_of, lookup, model_of, streamed_text
from tests.support.contexts import context, new_run
from tests.support.profiles import examples
from tests.support.strategies import cut

from recollect import (
    Agent,
    FilePart,
    InvalidArgumentError,
    Memory,
    Message,
    ReasoningPart,
    TextPart,
    TokenLimiterProcessor,
    ToolCall,
    ToolResult,
    TripWire,
)
from recollect.guards.token_limiter import count_tokens
from recollect.messages import frame_parts
from recollect.pipeline.processor import TextDelta
from recollect.testing import ScriptedModel
from recollect.text.quoting import fence
from recollect.text.tokens import truncate

pytestmark = pytest.mark.anyio

STORY = " ".join(f"The boat number {number} went out at dawn." for number in range(60))


def said(text: str, role: Any = "user", origin: Any = "memory") -> Message:  # noqa: ANN401 - a role, an origin
    """Return a message of the history."""
    return Message(role, text, origin=origin)


@both_modes
async def test_answer_is_cut_and_the_model_stopped(mode: Mode) -> None:
    """The text has at most the limit, ends with a word, and the reason to finish is the length."""
    agent = Agent(model_of(STORY, mode=mode), output_processors=[TokenLimiterProcessor(50)])
    result = await answer(agent, mode, "Tell me a story")
    assert result.text == truncate(STORY, 50)
    assert 45 <= count_tokens(result.text) <= 50
    assert STORY[len(result.text)] == " "
    assert result.finish_reason == "length"
    assert result.trace.find("token-limiter", "stream") is not None


async def test_model_is_asked_for_no_more_text_than_fits() -> None:
    """On a stream the model is left as soon as the limit is reached."""
    asked: list[str] = []

    class Endless:
        async def respond(self, messages: object) -> Any:  # noqa: ANN401 - an async generator
            del messages
            while True:
                asked.append("again ")
                yield "again "

    agent = Agent(Endless(), output_processors=[TokenLimiterProcessor(20)])
    events = await events_of(agent, "go on")
    assert streamed_text(events).split() == ["again"] * 20
    assert len(asked) <= 22


@both_modes
async def test_no_tool_runs_behind_the_limit(mode: Mode) -> None:
    """A call behind too much text is neither made nor kept, even if only the last word is too much."""
    ran: list[str] = []

    def note(word: str) -> str:
        ran.append(word)
        return word

    call = ToolCall("c1", "note", {"word": "x"})
    for limit in (5, count_tokens("one two three four five six") - 1):
        model = model_of(["one two three four five six", call], "never said", mode=mode)
        async with Memory() as memory:
            agent = Agent(
                model, tools=[note], memory=memory, output_processors=[TokenLimiterProcessor(limit)]
            )
            result = await answer(agent, mode, "go")
            saved = await memory.get_messages()
        assert (ran, len(model.shown)) == ([], 1)
        assert result.finish_reason == "length"
        assert [message.tool_calls for message in saved] == [(), ()]
        assert saved[-1].text == result.text == "one two three four five"


@both_modes
async def test_tools_run_within_the_limit_and_all_messages_count_together(mode: Mode) -> None:
    """Text before and behind a tool round is one answer."""
    model = model_of(["Let me look that up for you.", CALL], STORY, mode=mode)
    agent = Agent(model, tools=[lookup], output_processors=[TokenLimiterProcessor(30)])
    result = await answer(agent, mode, "ping?")
    assert result.text.startswith("Let me look that up for you.\nThe boat number 0")
    assert 24 <= count_tokens(result.text) <= 30
    assert result.finish_reason == "length"


@both_modes
async def test_answer_of_exactly_the_limit_is_whole(mode: Mode) -> None:
    """What fits is not touched, and ends as the model ended it."""
    agent = Agent(model_of(STORY, mode=mode), output_processors=[TokenLimiterProcessor(count_tokens(STORY))])
    result = await answer(agent, mode, "go")
    assert result.text == STORY
    assert result.finish_reason != "length"


@both_modes
async def test_run_is_stopped_when_that_is_the_strategy(mode: Mode) -> None:
    """Too long an answer trips, and nothing is kept."""
    async with Memory() as memory:
        limiter = TokenLimiterProcessor(50, strategy="abort")
        agent = Agent(model_of(STORY, mode=mode), memory=memory, output_processors=[limiter])
        result = await answer(agent, mode, "go")
        assert await memory.get_messages() == []
    assert result.tripwire
    assert "limit of 50 tokens" in result.tripwire.reason


@examples(0.4)
@given(st.data(), st.sampled_from((3, 20, 200, 900)))
async def test_stream_result_and_store_are_the_cut_text(data: st.DataObject, limit: int) -> None:
    """For every chunking what is shown, returned and kept is what the whole text is cut to."""
    chunks = data.draw(cut(STORY[:700]))
    async with Memory() as memory:
        agent = Agent(ScriptedModel([chunks]), output_processors=[TokenLimiterProcessor(limit), memory])
        events = await events_of(agent, "go")
        saved = (await memory.get_messages())[-1]
    final = events[-1].result
    assert final is not None
    assert streamed_text(events) == final.text == saved.text == truncate(STORY[:700], limit)


async def test_result_alone_is_cut_too() -> None:
    """Without a stream before it the result hook cuts the answer, and only that."""
    messages = [
        Message("user", "tell me a long story, please, I have time"),
        Message("assistant", [TextPart("one two three"), CALL, TextPart("four five"), TextPart("six")]),
        Message("assistant", "seven"),
    ]
    run = new_run()
    after = await TokenLimiterProcessor(6).process_output_result(messages, context(run, "result"))
    assert after[0] == messages[0]
    assert after[1].parts == (TextPart("one two three"), CALL, TextPart("four"))
    assert after[2].text == ""
    assert run.stop_reason == "length"
    fine = [Message("assistant", "one")]
    assert await TokenLimiterProcessor(6).process_output_result(fine, context(new_run(), "result")) == fine


async def test_nothing_follows_when_the_limit_was_reached() -> None:
    """Text and tool parts behind the limit are dropped, and the end is told once."""
    run = new_run()
    ctx, limiter = context(run, "stream", "token-limiter"), TokenLimiterProcessor(2)
    assert await limiter.process_output_stream(TextDelta("one two three four"), ctx) == [TextDelta("one two")]
    assert await limiter.process_output_stream(TextDelta(" five"), ctx) == []
    assert await limiter.process_output_stream(CALL, ctx) == []
    assert await limiter.finish_output_stream(ctx) == []
    assert run.trace.entry("token-limiter", "stream").notes == ["the answer was cut at 2 tokens"]


class TestPrompt:
    """The prompt as the model is shown it."""

    async def test_oldest_messages_go_first(self) -> None:
        """What is left is the newest that fits; the store keeps everything."""
        async with Memory(last_messages=None) as memory:
            for number in range(20):
                await memory.add_message("user", f"message number {number} of the history")
            model = ScriptedModel("fine")
            agent = Agent(model, memory=memory, input_processors=[TokenLimiterProcessor(60)])
            await agent.generate("and now?")
            saved = await memory.get_messages(None)
        shown = [message.text for message in model.shown[0]]
        assert shown[-2:] == ["message number 19 of the history", "and now?"]
        assert sum(map(count_tokens, shown)) <= 60
        assert len(shown) > 5
        assert len(saved) == 22

    async def test_system_messages_and_the_present_turn_stay(self) -> None:
        """They are counted, and never left out."""
        view = [
            Message("system", "memory says: " + "fact " * 20, origin="memory"),
            said("old " * 30),
            said("rules " * 20, "system", "input"),
            said("newer " * 10, "assistant"),
            said("first part", origin="input"),
            said("second part", origin="input"),
        ]
        after = await TokenLimiterProcessor(70).process_input(view, context(new_run()))
        assert after == [view[0], view[2], view[3], view[4], view[5]]

    @pytest.mark.parametrize(("limit", "is_shown"), [(200, True), (12, False)])
    async def test_run_goes_on_when_working_memory_is_too_long(self, *, limit: int, is_shown: bool) -> None:
        """One long value stops no run: it is shortened, or left out if nothing of it fits."""
        async with Memory(working_memory="Notes: {{notes}}") as memory:
            await memory.update_working_memory({"notes": "likes tea and " * 500})
            model = ScriptedModel("fine")
            agent = Agent(model, memory=memory, input_processors=[TokenLimiterProcessor(limit)])
            for prompt in ("hello", "and now?"):
                assert (await agent.generate(prompt)).text == "fine"
        for shown in model.shown:
            assert sum(count_tokens(message) for message in shown) <= limit
            assert ("likes tea" in shown[0].text) is is_shown
        assert [message.text for message in model.shown[1]][-3:] == ["hello", "fine", "and now?"]

    async def test_recalled_messages_go_before_working_memory_when_not_all_fits(self) -> None:
        """Of a block the last lines go first, its frame stays, and there is room for the history."""
        view = [
            Message(
                "system", frame_parts(fence("known", ["Name: Ada"])), origin="memory", kind="working_memory"
            ),
            Message(
                "system",
                frame_parts(fence("recalled", ["one two three", "four five six " * 200])),
                origin="memory",
                kind="recalled",
            ),
            said("old words " * 30),
            said("and now?", origin="input"),
        ]
        after = await TokenLimiterProcessor(220).process_input(view, context(new_run()))
        assert [after[0], *after[2:]] == [view[0], *view[2:]]
        assert "one two three\nfour five six" in after[1].text
        assert len(after[1].text) < len(view[1].text)
        assert after[1].parts[-1] == view[1].parts[-1]

    async def test_history_that_the_caller_sent_is_history(self) -> None:
        """Of a prompt with a whole conversation the turn is what the user said last."""
        view = [
            said("old " * 30, origin="input"),
            said("said " * 30, "assistant", "input"),
            said("now", origin="input"),
        ]
        assert await TokenLimiterProcessor(5).process_input(view, context(new_run())) == view[2:]

    async def test_call_goes_with_its_result(self) -> None:
        """A tool's call and result are left out together, with what stands between them."""
        view = [
            said("question"),
            Message("assistant", [ToolCall("c", "look", {"word": "x" * 50})], origin="memory"),
            said("between"),
            Message("tool", [ToolResult("c", "look", {"answer": "y" * 50})], origin="memory"),
            said("answer", "assistant"),
            said("now", origin="input"),
        ]
        after = await TokenLimiterProcessor(12).process_input(view, context(new_run()))
        assert after == view[4:]

    async def test_result_of_the_present_turn_stays_with_its_call(self) -> None:
        """What a client's own tool gave back belongs to the turn."""
        view = [
            said("old " * 30),
            said("look it up", origin="input"),
            Message("assistant", [ToolCall("c", "look", {})], origin="input"),
            Message("tool", [ToolResult("c", "look", "found")], origin="input"),
        ]
        assert await TokenLimiterProcessor(20).process_input(view, context(new_run())) == view[1:]

    async def test_prompt_without_a_user_is_the_turn(self) -> None:
        """A prompt of other roles is kept as a whole; without a prompt all is history."""
        view = [said("old " * 30), said("go on", "assistant", "input")]
        assert await TokenLimiterProcessor(5).process_input(view, context(new_run())) == view[1:]
        assert await TokenLimiterProcessor(5).process_input(view[:1], context(new_run())) == []

    async def test_what_has_to_stay_and_does_not_fit_stops_the_run(self) -> None:
        """The reason says what to do, and names no text."""
        run = new_run()
        run.instructions = "word " * 10
        view = [said("history"), said("secret " * 10, origin="input")]
        with pytest.raises(TripWire, match="raise the limit, or shorten") as caught:
            await TokenLimiterProcessor(15).process_input(view, context(run))
        assert "secret" not in caught.value.reason
        assert await TokenLimiterProcessor(25).process_input(view, context(run)) == view

    async def test_run_is_stopped_when_that_is_the_strategy(self) -> None:
        """With `abort` nothing is left out."""
        limiter = TokenLimiterProcessor(5, strategy="abort")
        with pytest.raises(TripWire, match="longer than the limit of 5"):
            await limiter.process_input([said("old " * 30), said("now", origin="input")], context(new_run()))

    @both_modes
    async def test_limit_holds_for_every_request_of_a_run(self, mode: Mode) -> None:
        """What tools give back pushes old messages out of the view; the turn and the store stay whole."""

        def look(word: str) -> str:
            """Look a word up."""
            return f"{word} means " + "much " * 20

        model = ScriptedModel(
            [ToolCall("a", "look", {"word": "x"}), ToolCall("b", "look", {"word": "y"}), "ok"]
        )
        async with Memory(last_messages=None) as memory:
            for number in range(10):
                await memory.add_message("user", f"message number {number} of the history")
            limiter = TokenLimiterProcessor(120)
            agent = Agent(model, memory=memory, tools=[look], input_processors=[limiter])
            result = await answer(agent, mode, "look them up")
            assert len(await memory.get_messages(None)) == 16
        # Ten messages and the prompt; then a round of two at a time, for as long as all fits.
        assert [len(shown) for shown in model.shown] == [11, 13, 12]
        again = await TokenLimiterProcessor(120).process_input(model.shown[2], context(new_run()))
        assert again == model.shown[2]
        assert [message.text for message in model.shown[2][-5:-4]] == ["look them up"]
        assert result.text == "ok"

    @both_modes
    async def test_turn_that_outgrows_the_limit_stops_the_run(self, mode: Mode) -> None:
        """A result that does not fit is not left out, which would have the model ask for it again."""

        def look() -> str:
            """Look it up."""
            return "much " * 200

        model = ScriptedModel([ToolCall("a", "look", {}), "ok"])
        async with Memory() as memory:
            agent = Agent(model, memory=memory, tools=[look], input_processors=[TokenLimiterProcessor(100)])
            result = await answer(agent, mode, "look it up")
            assert await memory.get_messages() == []
        assert "longer than the limit of 100" in str(result.tripwire)
        assert len(model.shown) == 1

    async def test_every_part_counts(self) -> None:
        """Reasoning, files, overhead and JSON are in the sum."""
        parts = [ReasoningPart("thinking"), FilePart("image/png", url="http://x.example/a.png")]
        view = [Message("assistant", parts, origin="memory"), said("now", origin="input")]
        assert await TokenLimiterProcessor(760).process_input(view, context(new_run())) == view[1:]
        assert await TokenLimiterProcessor(770).process_input(view, context(new_run())) == view
        heavy = TokenLimiterProcessor(770, message_overhead=4)
        assert await heavy.process_input(view, context(new_run())) == view[1:]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": 5, "strategy": "cut"}, "truncate, abort"),
        ({"limit": 5, "encoding": "p50k"}, "o200k, cl100k"),
        ({"limit": 5, "message_overhead": -1}, "message_overhead"),
    ],
)
def test_options_are_checked_at_construction(options: dict[str, Any], problem: str) -> None:
    """What cannot work is refused at once, with the values that can."""
    with pytest.raises(InvalidArgumentError, match=problem):
        TokenLimiterProcessor(**options)


def test_id_can_be_chosen() -> None:
    """Two limiters may stand in one list."""
    agent = Agent(output_processors=[TokenLimiterProcessor(5), TokenLimiterProcessor(3, id="second")])
    assert agent is not None


def test_limit_has_a_default_and_messages_are_counted_whole() -> None:
    """A limiter needs no arguments; a message counts with its tool calls, a text as it is."""
    TokenLimiterProcessor()
    text = "one two three"
    call = Message("assistant", [TextPart(text), ToolCall("c", "find", {"q": "x"})])
    assert count_tokens(Message("user", text)) == count_tokens(text) == 3
    assert count_tokens(call) > count_tokens(text)
