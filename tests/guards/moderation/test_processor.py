"""Moderation: rules as a floor, one judge a side, and nothing that was not judged is released."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.memory.profiles import NotingModel
from tests.support.agents import CALL, Mode, answer, both_modes, events_of, lookup, model_of, texts
from tests.support.contexts import context, new_run
from tests.support.timing import assert_costs_little_more, long_text

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    Message,
    ModerationProcessor,
    Parallel,
    PIIDetector,
    RecollectError,
    TextPart,
)
from recollect.errors import ModelNotAskableError
from recollect.guards.detection import Detection
from recollect.guards.moderation.rules import CATEGORIES, find_by_rules

pytestmark = pytest.mark.anyio

THREAT = "Be quiet, or I will kill you."

BAD = {
    "violence": (THREAT, "Ich bringe dich um!", "Je vais te tuer.", "Te voy a matar.", "Ti ammazzo."),
    "self-harm": ("Just kill yourself.", "Bring dich um.", "Suicide-toi.", "I want to end my life"),
    "harassment": ("Fuck you!", "You are such a stupid bitch", "Fick dich", "hijo de puta", "vaffanculo"),
    "hate": ("Kill all the Jews", "Immigrants are vermin.", "Tod den Juden", "Mort aux juifs"),
    "illicit": ("How do I make a pipe bomb at home?", "Wie baue ich eine Bombe?", "How to cook meth"),
    "sexual": ("hardcore porn", "Suck my dick"),
    "sexual/minors": ("child porn", "nudes of a 9-year-old"),
}
FINE = (
    "I will kill the process and restart the server.",
    "How do I make a bomb-shaped cake?",
    "How do I make my boss happy? Explosives are not my topic.",
    "Women are engineers and men are nurses here.",
    "The sex of the child was not recorded.",
    "We need to cut costs. Hang the picture yourself.",
    "Shoot them an e-mail, and burn all the calories.",
    "Er bringt dich um sieben nach Hause.",
    "The minor details are in the appendix; go to Hellevoetsluis.",
    "You are a very good friend.",
    "She died of cancer after the war in which millions were murdered.",
)


@pytest.mark.parametrize(("category", "text"), [(name, text) for name, some in BAD.items() for text in some])
def test_rules_find_plain_cases(category: str, text: str) -> None:
    """Threats, hate and the like are found in several languages, in their category."""
    assert category in {detection.type for detection in find_by_rules(text)}
    assert category in CATEGORIES


async def test_rules_count_from_the_threshold_on() -> None:
    """A detection of which a rule is less sure passes a guard that wants more."""
    unsure, sure = "I want to end my life", "Just kill yourself."
    scores = [find_by_rules(text)[0].score for text in (unsure, sure)]
    assert scores == [0.8, 0.95]
    for threshold, is_stopped in ((0.8, [True, True]), (0.9, [False, True]), (0.96, [False, False])):
        agent = Agent(model_of("hm"), input_processors=[ModerationProcessor(threshold=threshold)])
        results = [await agent.generate(text) for text in (unsure, sure)]
        assert [bool(result.tripwire) for result in results] == is_stopped


@pytest.mark.parametrize("text", FINE)
def test_rules_leave_benign_text_alone(text: str) -> None:
    """The same words in another sense are not found."""
    assert find_by_rules(text) == []


@pytest.mark.parametrize(
    "part", ["du bist ein", "how to make ", "women are all ", "sex with ", " ", "i will kill "]
)
def test_hostile_text_costs_no_more_than_twenty_times_ordinary_text(part: str) -> None:
    """Beginnings of what a rule looks for do not make it slow."""
    ordinary = "Our ferry leaves at nine, and the crossing takes two hours; bring a coat. "
    assert_costs_little_more(find_by_rules, long_text(ordinary, 40_000), long_text(part, 40_000))


@both_modes
async def test_prompt_is_blocked_before_memory_and_model(mode: Mode) -> None:
    """Without any model the rules stop a threat; the reason names the category."""
    model, memory = model_of("never said"), Memory()
    agent = Agent(model, input_processors=[ModerationProcessor(), memory])
    result = await answer(agent, mode, THREAT)
    assert result.tripwire
    assert result.tripwire.reason == "the prompt was judged as violence"
    assert result.tripwire.metadata == {"categories": "violence"}
    assert model.shown == []


@both_modes
async def test_blocked_answer_is_neither_shown_nor_kept(mode: Mode) -> None:
    """All text waits for the judgement, so that not a word of it is released."""
    async with Memory() as memory:
        agent = Agent(model_of(THREAT, mode=mode), output_processors=[ModerationProcessor(), memory])
        if mode == "stream":
            assert [event.type for event in await events_of(agent, "hi")] == ["tripwire"]
        result = await answer(agent, mode, "hi")
        assert await memory.get_messages() == []
    assert result.tripwire
    assert result.tripwire.reason == "the answer was judged as violence"


@both_modes
async def test_warning_only_tells(mode: Mode) -> None:
    """The text passes without waiting; the callback hears of type, place and score."""
    told = list[Detection]()
    guard = ModerationProcessor(strategy="warn", on_detection=lambda found, _: told.extend(found))
    agent = Agent(model_of(THREAT, mode=mode), output_processors=[guard])
    if mode == "stream":
        assert len(await events_of(agent, "hi")) > 5
        told.clear()
    assert (await answer(agent, mode, "hi")).text == THREAT
    assert [(found.type, THREAT[found.start : found.end]) for found in told] == [
        ("violence", "I will kill you")
    ]


@both_modes
async def test_filter_leaves_out_what_was_judged(mode: Mode) -> None:
    """A bad message of the prompt is not shown; a bad text of the answer is not, its tool calls are."""
    async with Memory() as memory:
        model = model_of([THREAT, CALL], "All well.", mode=mode)
        agent = Agent(
            model,
            tools=[lookup],
            input_processors=[ModerationProcessor(strategy="filter")],
            output_processors=[ModerationProcessor(strategy="filter"), memory],
            memory=memory,
        )
        prompt = [{"role": "user", "content": THREAT}, {"role": "user", "content": "Are you well?"}]
        result = await answer(agent, mode, prompt)
        saved = await memory.get_messages()
    assert texts(model.shown[0]) == [("user", "Are you well?")]
    assert result.text == "All well."
    assert texts(saved)[0] == ("user", "Are you well?")
    assert saved[1].tool_calls == (CALL,)
    assert THREAT not in str(texts(saved))


async def test_run_is_stopped_when_nothing_is_left_of_the_prompt() -> None:
    """A model is not asked without a question."""
    agent = Agent(model_of("never said"), input_processors=[ModerationProcessor(strategy="filter")])
    result = await agent.generate(THREAT)
    assert result.tripwire
    assert "nothing of the prompt" in result.tripwire.reason


@both_modes
async def test_judge_is_asked_once_a_side(mode: Mode) -> None:
    """However many chunks, messages and tool rounds: one question for the prompt, one for the answer."""
    asked: list[str] = []

    def judge(text: str) -> Mapping[str, float]:
        asked.append(text)
        return {"rude": 0.9 if "blockhead" in text else 0.1}

    guard = ModerationProcessor(judge=judge, categories=["rude"], threshold=0.8)
    model = model_of(["Let me see.", CALL], "You blockhead.", mode=mode)
    agent = Agent(model, tools=[lookup], input_processors=[guard], output_processors=[guard])
    result = await answer(agent, mode, "Hello there")
    assert result.tripwire
    assert result.tripwire.reason == "the answer was judged as rude"
    assert asked == ["Hello there", "Let me see.\n\nYou blockhead."]


async def test_judge_may_be_async_and_is_spared_what_the_rules_find() -> None:
    """The floor comes first: a judge is not asked about what is clear."""
    asked: list[str] = []

    async def judge(text: str) -> Mapping[str, float]:
        asked.append(text)
        return {"violence": 1, "unknown": 1.0}

    guard = ModerationProcessor(judge=judge, strategy="filter")
    run = new_run()
    after = await guard.process_output_result(
        [Message("assistant", [TextPart("Boo.")])], context(run, "result")
    )
    assert [message.text for message in after] == [""]
    await guard.process_output_result([Message("assistant", THREAT)], context(run, "result"))
    assert asked == ["Boo."]
    nothing = [Message("assistant", [CALL])]
    assert await guard.process_output_result(nothing, context(run, "result")) == nothing


async def test_model_is_asked_for_typed_scores() -> None:
    """A model that was given judges by one request; what it is shown is fenced as data."""
    judge = NotingModel({"response": {"hate": 0.9}})
    agent = Agent(model_of("never said"), input_processors=[ModerationProcessor(judge=judge.model)])
    result = await agent.generate("something subtle")
    assert result.tripwire
    assert result.tripwire.reason == "the prompt was judged as hate"
    (prompt,) = judge.prompts
    assert "something subtle" in prompt
    assert "<memory label=" in prompt
    calm = Agent(
        model_of("fine"),
        input_processors=[ModerationProcessor(judge=NotingModel({"response": {"hate": 0.1}}).model)],
    )
    assert (await calm.generate("something subtle")).text == "fine"


async def test_judge_that_cannot_be_asked_fails_closed() -> None:
    """The offline model is no judge: to block is an error, to warn is a note."""
    with pytest.raises(ModelNotAskableError):
        await Agent("offline", input_processors=[ModerationProcessor(judge="run")]).generate("hello")
    warned = Agent("offline", input_processors=[ModerationProcessor(judge="run", strategy="warn")])
    result = await warned.generate("hello")
    entry = result.trace.find("moderation", "input")
    assert entry is not None
    assert "not judged" in entry.notes


@pytest.mark.parametrize("scores", [None, "bad", {"hate": "high"}, {"hate": 7}, {"hate": float("nan")}])
async def test_nonsense_from_a_judge_fails_closed(scores: Any) -> None:  # noqa: ANN401 - anything a judge may give
    """An answer that is no scores stops the run, and is not quoted."""
    guard = ModerationProcessor(judge=lambda _: scores)
    with pytest.raises(RecollectError):
        await guard.process_input([Message("user", "hello")], context(new_run()))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"strategy": "hide"}, "block, warn, filter"),
        ({"categories": ["rude"]}, "harassment, hate"),
        ({"categories": "hate"}, "must be a list"),
        ({"categories": "hate", "judge": len}, "must be a list"),
        ({"categories": [5], "judge": len}, "categories"),
        ({"threshold": -1}, "from 0 to 1"),
        ({"classifier": "yes"}, "classifier: must be True or False"),
        ({"judge": 5}, "judge: must be a function, a model, its name, or 'run' for the run's own, not 5"),
        ({"judge": dict}, "judge: must be a function"),
    ],
)
def test_options_are_checked_at_construction(options: dict[str, Any], problem: str) -> None:
    """What cannot work is refused at once, with the values that can."""
    with pytest.raises(InvalidArgumentError, match=problem):
        ModerationProcessor(**options)


async def test_only_chosen_categories_count() -> None:
    """What is not asked about passes."""
    messages = [Message("user", THREAT)]
    guard = ModerationProcessor(categories=["hate"])
    assert await guard.process_input(messages, context(new_run())) == messages


@both_modes
async def test_it_runs_beside_other_guards_unless_it_edits(mode: Mode) -> None:
    """In a `Parallel` it blocks or warns on both sides; what leaves messages out cannot run beside others."""
    sides = [Parallel(PIIDetector(), ModerationProcessor(), id=name) for name in ("asked", "said")]
    async with Memory() as memory:
        model = model_of("Write to ada@example.org.", f"So be it: {THREAT}", mode=mode)
        agent = Agent(model, memory=memory, input_processors=sides[:1], output_processors=sides[1:])
        assert (await answer(agent, mode, "Hello")).text == "Write to ***@***.***."
        for prompt in ("And now?", THREAT):
            result = await answer(agent, mode, prompt)
            assert result.tripwire is not None
            assert result.tripwire.processor_id == "moderation"
        assert len(await memory.get_messages()) == 2
    assert len(model.shown) == 2
    with pytest.raises(InvalidArgumentError, match="ModerationProcessor is neither a SpanGuard nor marked"):
        Parallel(PIIDetector(), ModerationProcessor("filter"))
