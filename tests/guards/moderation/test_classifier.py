"""Moderation's classifier finds what the rules miss, reads long texts in windows, and fails closed."""

from collections.abc import Mapping

import pytest
from tests.support.agents import Mode, answer, both_modes, model_of
from tests.support.contexts import context, new_run

from recollect import (
    Agent,
    Message,
    MissingExtraError,
    ModerationProcessor,
    PromptInjectionDetector,
    RecollectError,
)
from recollect.guards import embedded_windows
from recollect.guards.embedded_windows import MAX_WINDOWS, embed_window, split_windows
from recollect.guards.moderation import classifier
from recollect.guards.moderation.classifier import find_by_classifier
from recollect.guards.moderation.rules import find_by_rules

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("moderation classifier")]

INDIRECT = "Nobody needs a fat ugly nothing like you on this team, so leave."
CALM = "The ferry leaves at nine, and we bring a coat. "


@both_modes
async def test_indirect_harm_is_blocked_on_both_sides(mode: Mode) -> None:
    """What no rule finds stops the prompt and the answer, in its category, whole or in chunks."""
    assert find_by_rules(INDIRECT) == []
    guard = ModerationProcessor(classifier=True)
    asked = await answer(Agent(model_of("never said"), input_processors=[guard]), mode, INDIRECT)
    said = await answer(Agent(model_of(INDIRECT, mode=mode), output_processors=[guard]), mode, "hi")
    reasons = [result.tripwire.reason for result in (asked, said) if result.tripwire]
    assert reasons == ["the prompt was judged as harassment", "the answer was judged as harassment"]


async def test_classifier_reads_only_when_it_is_wanted() -> None:
    """Without it the same text passes, as does a benign one with it."""
    for guard, text in ((ModerationProcessor(), INDIRECT), (ModerationProcessor(classifier=True), CALM)):
        messages = [Message("user", text)]
        assert await guard.process_input(messages, context(new_run())) == messages


async def test_judge_is_spared_what_the_classifier_finds() -> None:
    """A judge is asked about what neither rules nor classifier found."""
    asked: list[str] = []

    def judge(text: str) -> Mapping[str, float]:
        asked.append(text)
        return {}

    guard = ModerationProcessor("filter", classifier=True, judge=judge)
    calm = Message("user", CALM)
    assert await guard.process_input([calm, Message("user", INDIRECT)], context(new_run())) == [calm]
    await guard.process_input([calm], context(new_run()))
    assert asked == [CALM]


def test_long_text_is_read_in_windows() -> None:
    """Harm raises the score of its own window; of a very long text 24 are read, with both ends."""
    text = CALM * 60 + INDIRECT
    scores = [found.score for found in find_by_classifier(text)]
    assert scores.index(max(scores)) == len(scores) - 1 == len(split_windows(text)) - 1
    very_long = CALM * 1000
    found = find_by_classifier(very_long)
    windows = split_windows(very_long)
    assert len(found) == MAX_WINDOWS < len(windows)
    assert [(one.start, one.end) for one in (found[0], found[-1])] == [windows[0], windows[-1]]


def test_classifier_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package to install; the rules alone need nothing."""
    monkeypatch.setattr(embedded_windows, "_PACKAGES", ("no_such_package",))
    ModerationProcessor()
    with pytest.raises(MissingExtraError, match=r"pip install 'recollect\[guard\]'"):
        ModerationProcessor(classifier=True)


async def test_classifier_that_fails_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that could not be judged does not pass."""

    def broken() -> None:
        raise OSError("no model file")

    monkeypatch.setattr(classifier, "_load_weights", broken)
    guard = ModerationProcessor(classifier=True)
    with pytest.raises(
        RecollectError, match="the moderation classifier could not run: OSError: no model file"
    ):
        await guard.process_input([Message("user", CALM)], context(new_run()))


async def test_two_guards_embed_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the injection guard has read is not embedded again for moderation."""
    embedded: list[str] = []
    real = embedded_windows.embed_sync

    def embed_and_count(text: str) -> object:
        embedded.append(text)
        return real(text)

    monkeypatch.setattr(embedded_windows, "embed_sync", embed_and_count)
    text = "The heron by the mill was counted twice this spring."  # no other test embeds it
    for guard in (PromptInjectionDetector(classifier=True), ModerationProcessor(classifier=True)):
        await guard.process_input([Message("user", text)], context(new_run()))
    assert embedded == [text]


def test_vectors_of_many_windows_are_dropped() -> None:
    """The cache has an end, and a window that was dropped is embedded again."""
    for number in range(2 * MAX_WINDOWS + 1):
        embed_window(f"window {number}")
    assert embed_window("window 0").shape == (384,)
