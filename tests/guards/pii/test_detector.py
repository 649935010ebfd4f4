"""PIIDetector's options: strategies, methods, what may stay, patterns of one's own, engines, and reports."""

import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.contexts import context, new_run
from tests.support.strategies import cleaned, streamed

from recollect import (
    FilePart,
    InvalidArgumentError,
    Message,
    Parallel,
    PIIDetector,
    RecollectError,
    RunContext,
    TextDelta,
    TextPart,
    ToolCall,
    TripWire,
)
from recollect.guards.detection import Detection
from recollect.guards.pii.presidio import PresidioEngine

pytestmark = pytest.mark.anyio

TEXT = "Mail ada@example.org, SSN 123-45-6789."


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("mask", "Mail ***@***.***, SSN [REDACTED]."),
        ("placeholder", "Mail [EMAIL], SSN [SSN]."),
        ("remove", "Mail , SSN ."),
    ],
)
async def test_each_method_writes_something_else(method: Any, expected: str) -> None:  # noqa: ANN401 - a choice
    """An e-mail address is masked in its own way."""
    assert await cleaned(PIIDetector(method=method), TEXT) == expected


async def test_hash_is_keyed_and_the_same_for_the_same_thing() -> None:
    """One key gives one hash however a thing is written; another key, or none, another; it has no digits."""
    one = PIIDetector(method="hash", key="k1")
    first = await cleaned(one, "call 415-555-0132 or (415) 555-0132, ada@example.org")
    found = re.fullmatch(r"call (\[PHONE:[a-p]{16}\]) or (\[PHONE:[a-p]{16}\]), (\[EMAIL:[a-p]{16}\])", first)
    assert found
    assert found[1] == found[2] != found[3]
    assert await cleaned(PIIDetector(method="hash", key=b"k1"), "ADA@example.org") == found[3]
    others = [PIIDetector(method="hash", key="k2"), PIIDetector(method="hash"), PIIDetector(method="hash")]
    assert len({await cleaned(other, "ada@example.org") for other in others} | {found[3]}) == 4
    assert await cleaned(one, first) == first


async def test_text_that_is_redacted_to_nothing_is_not_the_text_as_it_was() -> None:
    """A message that holds nothing else becomes empty; it does not come back whole."""
    guard = PIIDetector(method="remove")
    (message,) = await guard.process_input([Message("user", "ada@example.org")], context(new_run()))
    assert message.text == ""
    assert await streamed(guard, ["ada@exa", "mple.org"]) == ""


async def test_only_what_is_found_changes_in_a_message() -> None:
    """Files, metadata and names of tools stay; texts and numbers among a call's arguments do not."""
    file = FilePart("image/png", data="MTIzLTQ1LTY3ODk=", name="a.png")
    call = ToolCall("c", "send", {"to": ["ada@example.org"], "count": 41, "card": 4111111111111111})
    message = Message("assistant", [TextPart(TEXT), file, call], metadata={"mail": "ada@example.org"})
    (after,) = await PIIDetector().process_output_result([message], context(new_run(), "result"))
    assert after.parts == (
        TextPart("Mail ***@***.***, SSN [REDACTED]."),
        file,
        ToolCall("c", "send", {"to": ["***@***.***"], "count": 41, "card": "[REDACTED]"}),
    )
    assert after.metadata == message.metadata
    shown = await PIIDetector().process_tool_call(call, context(new_run(), "tool_call"))
    assert shown.arguments["to"] == ["***@***.***"]


class Reports:
    """Keeps what a detector reports."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seen: list[Detection] = []

    def __call__(self, detections: Sequence[Detection], ctx: RunContext) -> None:
        """Keep detections."""
        assert ctx.processor_id
        self.seen += detections


async def test_warning_changes_nothing_and_is_reported_without_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Trace, log and callback have kinds, places and scores."""
    reports, run = Reports(), new_run()
    guard = PIIDetector("warn", on_detection=reports)
    with caplog.at_level(logging.INFO, "recollect"):
        assert await cleaned(guard, TEXT, context(run)) == TEXT
    assert [(item.type, TEXT[item.start : item.end]) for item in reports.seen] == [
        ("email", "ada@example.org"),
        ("ssn", "123-45-6789"),
    ]
    assert all(0.5 <= item.score <= 1 for item in reports.seen)
    notes = [note for entry in run.trace for note in entry.notes]
    assert notes == ["warn: 2 found (email, ssn)"]
    assert "2 found (email, ssn)" in caplog.text
    assert "ada@" not in caplog.text + str(notes)


@pytest.mark.parametrize("strategy", ["warn", "redact"])
@pytest.mark.parametrize("size", [1, 3, 100])
async def test_each_detection_is_reported_once_when_text_streams(strategy: Any, size: int) -> None:  # noqa: ANN401 - a choice
    """What is looked at again and again is reported once, when it is released."""
    reports = Reports()
    text = f"{TEXT} More words follow here, and then 203.0.113.42 is the end"
    guard = PIIDetector(strategy, on_detection=reports)
    out = await streamed(guard, [text[i : i + size] for i in range(0, len(text), size)])
    assert [item.type for item in reports.seen] == ["email", "ssn", "ip"]
    assert [item.end - item.start for item in reports.seen] == [15, 11, 12]
    assert (out == text) == (strategy == "warn")


async def test_long_secret_is_only_reported_when_the_strategy_is_to_warn() -> None:
    """Nothing is swallowed of a text that must not change."""
    text = f"sk-proj-{'a1' * 400} end"
    assert await streamed(PIIDetector("warn"), [text[i : i + 9] for i in range(0, len(text), 9)]) == text


@pytest.mark.parametrize("chunks", [[TEXT], list(TEXT)])
async def test_block_stops_the_run_and_names_the_kinds_only(chunks: list[str]) -> None:
    """The trip has no text in it; on a stream nothing of the detection is released before."""
    out: list[str] = []
    with pytest.raises(TripWire) as caught:
        await _let_out(PIIDetector("block"), chunks, out)
    assert caught.value.reason.startswith("personal data found: email")
    assert caught.value.metadata["types"][0] == "email"  # type: ignore[index]
    assert "ada" not in "".join(out) + caught.value.reason


async def test_block_stops_at_the_limit_of_a_long_secret() -> None:
    """A token that goes on and on trips as soon as it is too long to wait for."""
    with pytest.raises(TripWire, match="secret"):
        await _let_out(PIIDetector("block"), ["sk-proj-a1b2c3"] * 60, [])


async def _let_out(guard: PIIDetector, chunks: list[str], out: list[str]) -> None:
    """Add what a guard releases of a stream to a list, up to where it trips."""
    ctx = context(new_run(), "stream")
    for chunk in chunks:
        parts = await guard.process_output_stream(TextDelta(chunk), ctx)
        out += [part.text for part in parts if isinstance(part, TextDelta)]
    await guard.finish_output_stream(ctx)


async def test_benign_stream_is_not_blocked_for_what_it_might_have_become() -> None:
    """The beginning of a longer number looks like an address or a card, and is neither."""
    text = "build 10.20.30.40.50 and 4111111111111111222233334444 are fine"
    assert await streamed(PIIDetector("block"), list(text)) == text


async def test_filter_leaves_out_the_whole_text_and_keeps_the_others() -> None:
    """A text in which something is found is gone; on a stream it waits for its end."""
    guard = PIIDetector("filter")
    messages = [Message("user", TEXT), Message("user", "fine")]
    after = await guard.process_input(messages, context(new_run()))
    assert [message.text for message in after] == ["", "fine"]
    assert await streamed(guard, ["Hello. ", "ada@example.org", " bye"]) == ""
    assert await streamed(guard, ["Hello. ", "bye"]) == "Hello. bye"


async def test_what_is_allowed_stays() -> None:
    """Texts in any case, and patterns that fit the whole detection."""
    guard = PIIDetector(allow=["Help@Example.org", re.compile(r"203\.0\.113\.\d+")])
    text = "help@example.org 203.0.113.9 ada@example.org 198.51.100.9"
    assert await cleaned(guard, text) == "help@example.org 203.0.113.9 ***@***.*** [REDACTED]"


async def test_types_regions_and_threshold_choose_what_is_looked_for() -> None:
    """Kinds that are not named, numbers of other countries, and what is too unsure are left alone."""
    text = "ada@example.org, DNI 12345678Z, AB123456C, 415 555 0132"
    assert await cleaned(PIIDetector(types=["email"]), text) == text.replace("ada@example.org", "***@***.***")
    spain = PIIDetector(types=["national_id"], regions=["ES"])
    assert await cleaned(spain, text) == text.replace("12345678Z", "[REDACTED]")
    assert await cleaned(PIIDetector(types=["national_id"], regions=["US"]), text) == text
    assert await cleaned(PIIDetector(types=["ssn"], regions=["DE"]), TEXT) == TEXT
    assert "415 555 0132" in await cleaned(PIIDetector(threshold=0.8), text)
    assert "415 555 0132" not in await cleaned(PIIDetector(), text)


async def test_patterns_of_ones_own_have_names() -> None:
    """They are found beside the others, also where the others find nothing; empty matches are none."""
    guard = PIIDetector(
        method="placeholder", types=[], patterns={"badge": r"B-\d*", "team": re.compile("red|x*\b")}
    )
    assert (
        await cleaned(guard, "B-77 of team red, ada@example.org") == "[BADGE] of team [TEAM], ada@example.org"
    )


class Entity:
    """What Presidio returns."""

    def __init__(self, kind: str, start: int, end: int, score: float) -> None:
        """Be of a kind, somewhere."""
        self.entity_type, self.start, self.end, self.score = kind, start, end, score


class ScriptedAnalyzer:
    """An analyzer that knows one name and one place."""

    def analyze(self, text: str, language: str, *, entities: list[str]) -> list[Entity]:
        """Find them."""
        assert (language, entities) == ("en", ["PERSON", "LOCATION"])
        known = {"Ada": ("PERSON", 0.85), "Leeds": ("LOCATION", 0.7), "Al": ("PERSON", 0.2)}
        known["X1"] = ("CAR", 0.9)
        return [
            Entity(kind, text.index(word), text.index(word) + len(word), score)
            for word, (kind, score) in known.items()
            if word in text
        ]


async def test_presidio_finds_names_and_places_beside_the_patterns() -> None:
    """What it is sure enough of is replaced, under our names for kinds; a stream waits for whole texts."""
    guard = PIIDetector(method="placeholder", engine=PresidioEngine(ScriptedAnalyzer()))
    text = "Ada of Leeds, a@b.org, with Al in X1"
    assert await cleaned(guard, text) == "[NAME] of [PLACE], [EMAIL], with Al in [CAR]"
    assert await streamed(guard, list(text)) == "[NAME] of [PLACE], [EMAIL], with Al in [CAR]"


async def test_engine_that_fails_stops_the_run_and_quotes_nothing() -> None:
    """Fail closed: no text passes unseen, and the error of the engine, which quotes it, is not told."""

    class Broken:
        def find(self, text: str) -> list[Detection]:
            raise ValueError(text)

    with pytest.raises(RecollectError, match="Broken could not look for personal data: ValueError") as caught:
        await cleaned(PIIDetector(engine=Broken()), "Ada")
    assert caught.value.__context__ is None


def test_presidio_says_how_to_get_it_when_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an analyzer of one's own the package is needed; with it, one is made."""
    monkeypatch.setitem(__import__("sys").modules, "presidio_analyzer", None)
    with pytest.raises(RecollectError, match="pip install presidio-analyzer"):
        PresidioEngine()
    monkeypatch.setitem(__import__("sys").modules, "presidio_analyzer", FakePresidio)
    assert PresidioEngine().find("Ada") == [Detection("name", 0, 3, 0.85)]


class FakePresidio:
    """Stands for the package, which need not be installed."""

    AnalyzerEngine = ScriptedAnalyzer


async def test_detectors_run_side_by_side() -> None:
    """In a `Parallel` each reports under its own name, and one that only warns disturbs nobody."""
    reports, run = Reports(), new_run()
    both = Parallel(
        PIIDetector(types=["email"], id="mails"),
        PIIDetector("warn", types=["email", "ssn"], on_detection=reports, id="watch"),
    )
    assert await cleaned(both, TEXT, context(run)) == "Mail ***@***.***, SSN 123-45-6789."
    assert await streamed(both, list(TEXT)) == "Mail ***@***.***, SSN 123-45-6789."
    assert [item.type for item in reports.seen] == ["email", "ssn"] * 2
    noted = {entry.processor_id: entry.notes for entry in run.trace if entry.notes}
    assert noted == {"mails": ["redact: 1 found (email)"], "watch": ["warn: 2 found (email, ssn)"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "hide"}, "strategy: must be one of redact, block, warn, filter"),
        ({"method": "blur"}, "method: must be one of mask, placeholder, hash, remove"),
        ({"types": ["emails"]}, "types: must be one of email, phone"),
        ({"types": "email"}, "types: must be a list of email, phone"),
        ({"regions": ["XX"]}, "regions: must be one of US, BE"),
        ({"threshold": 2}, "threshold: must be a number from 0 to 1"),
        ({"allow": "a@b.org"}, "allow: must be a list"),
        ({"allow": [1]}, "allow: must hold texts or patterns, not int"),
        ({"key": ""}, "key: must be a text or bytes"),
        ({"key": 5}, "key: must be a text or bytes"),
        ({"patterns": {"email": "x"}}, "'email' must be a small word of its own"),
        ({"patterns": {"Big Name": "x"}}, "must be a small word of its own"),
        ({"patterns": {"odd": "("}}, "odd is not a regular expression"),
        ({"patterns": {"odd": 5}}, "odd is not a regular expression: int"),
        ({"patterns": {5: "x"}}, "must be a small word of its own"),
        ({"patterns": ["x"]}, "patterns: must be a dict of patterns, not list"),
        ({"types": []}, "types: must name at least one of email, phone"),
        ({"engine": "presidio"}, "engine: must be an object with `find(text)`, not str"),
        ({"on_detection": "log"}, "on_detection: must be a plain function"),
    ],
)
def test_options_are_checked_at_construction(options: dict[str, Any], message: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        PIIDetector(**options)


def test_open_match_that_no_rule_finds_is_replaced_by_the_method() -> None:
    """What the base writes for something that is too long and not found follows the method too."""
    written = {
        method: PIIDetector(method=method).replacement_of_open("x") for method in ("mask", "remove", "hash")
    }
    assert written == {"mask": "[REDACTED]", "remove": "", "hash": "[SECRET]"}
