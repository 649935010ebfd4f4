"""However a model's text is cut into chunks, what is personal is gone and the rest is as it was."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guards.pii.texts import BADGE, BENIGN, LONG_SECRETS, SAMPLES, Sample, each_sample
from tests.support.agents import events_of, streamed_text
from tests.support.contexts import context, new_run
from tests.support.profiles import examples
from tests.support.strategies import cleaned, cut, streamed

from recollect import Agent, Memory, Parallel, PIIDetector, Processor, RunContext, Span, SpanGuard
from recollect.guards.holdback import HoldBack
from recollect.guards.pii.detector import Strategy
from recollect.guards.pii.finder import TYPES, PIIFinder
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def guard(sample: Sample | None = None, *, name: str = "pii") -> PIIDetector:
    """Return a guard for all kinds, or for that of a sample."""
    patterns = {"badge": BADGE} if sample is None or sample.kind == "badge" else None
    types = [sample.kind] if sample and sample.kind in TYPES else TYPES
    return PIIDetector(method="placeholder", types=types, patterns=patterns, id=name)


def cut_at(text: str, *places: int) -> list[str]:
    """Cut a text at some places."""
    return [text[a:b] for a, b in zip((0, *places), (*places, len(text)), strict=True)]


@each_sample
async def test_each_kind_is_found_whole_and_the_rest_stays(sample: Sample) -> None:
    """What is written in its place is the kind; what stands around it is untouched."""
    expected = sample.text.replace(sample.secret, f"[{sample.kind.upper()}]")
    found = await cleaned(guard(sample), sample.text)
    assert found == expected or (sample.kind == "phone" and found == expected.replace("+1 [", "["))


@each_sample
async def test_stream_is_the_same_for_every_one_and_two_cuts(sample: Sample) -> None:
    """All ways to cut forty characters once or twice, and into single ones, give the whole text's result."""
    tested = guard(sample)
    expected = await cleaned(tested, sample.text)
    inside = range(1, len(sample.text))
    ways = [*((place,) for place in inside), *combinations(inside, 2), tuple(inside)]
    for places in ways:
        assert await streamed(tested, cut_at(sample.text, *places)) == expected, places


fragments = st.sampled_from(
    (
        *(
            "\\n",
            "\\",
            "a@b.co",
            "@",
            "john",
            ".",
            "-",
            " ",
            "\n",
            "+49 ",
            "(0)",
            "555-123-4567",
            "123-45-",
            "6789",
            "4111 ",
        ),
        *(
            "1111",
            "DE89 ",
            "3704 0044 0532 0130 00",
            "AB ",
            "12 34 56 C",
            "1.2.3",
            ".4",
            "00:1A:",
            "2B:3C:4D:5E",
        ),
        *(
            "password: ",
            "x1y2z3",
            "token=",
            "sk-proj-",
            "born ",
            "May 12, 1980",
            "://",
            "http",
            "a:b1@",
            "ext. 5",
        ),
        *(
            "-----BEGIN ",
            "PRIVATE KEY-----\n",
            "MIIE123+/=\n",
            "-----END X-----",
            "eyJabcdefgh1.",
            "é",
            "|",
            "7" * 30,
        ),
    )
)


WORDS = (
    *("\\n", "see\\n", "\\t27 "),
    *("harbour ", "office ", "tea, ", "US ", "FR A", "your. ", "Newborn ", "date of ", "birth", "of 5 "),
    *("née ", "née", "geb", "oren ", "生日", "출생 ", "\t", "\u00a0", "note: ", "a-b", "what?", "x" * 70),
    *(
        "27 ",
        "27",
        "1887 ",
        "12 ",
        "34 ",
        "56 ",
        "C ",
        "11:30 ",
        "4,000 ",
        "(12) ",
        "- ",
        "( ",
        "| 5 ",
        "14th ",
    ),
    *(
        "pin is ",
        "4711 ",
        "has ",
        "**Bold** ",
        "a_long_snake_name ",
        "SG.",
        "MALT ",
        "GB29 ",
        "NWBK ",
        "6016 ",
    ),
)
INNOCENT_NUMBERS = (
    *("There are 27 boats", "in 1887, when it", "at 11:30 or so", "some 4,000,000 more", "the 14th of May"),
    *("a 20% share of", "on Python 3.11.7 here", "\n1. **Check** it", "| 0.72 | 1.05 | of", "it (12) was"),
    *(
        "on 2026-11-16 it",
        "costs $38 now",
        "a_long_snake_name is",
        "What is **bold** here",
        "read-only-memory is",
    ),
)
LOUD = (
    *(
        "call 030 1234",
        "call 12 - 34",
        "AB 12 is",
        "my pin is 4711",
        "my password is hunter!x",
        "http://a:b",
        "a@",
    ),
    *("x12", "12345", "glpat-abcdefghijklmnop", "born on", "-----BEGIN ", "1.2.3.4", "SG.", "+49"),
)


@given(text=st.lists(fragments, min_size=1, max_size=12).map("".join), data=st.data())
@examples(3)
async def test_stream_is_the_same_for_hostile_mixtures(text: str, data: st.DataObject) -> None:
    """Halves of everything, joined at random and cut at random."""
    tested = PIIDetector(method="placeholder")
    assert await streamed(tested, data.draw(cut(text))) == await cleaned(tested, text)


class Looking(PIIDetector):
    """Looks at all text, also at what is obviously harmless."""

    new_stream = SpanGuard.new_stream


@pytest.mark.parametrize("strategy", ["redact", "warn"])
@given(
    text=st.lists(st.one_of(fragments, *[st.sampled_from(WORDS)] * 3), max_size=20).map("".join),
    data=st.data(),
)
@examples(4)
async def test_nothing_is_missed_in_text_that_is_passed_without_a_look(
    strategy: Strategy, text: str, data: st.DataObject
) -> None:
    """The same text comes out as if everything were looked at, and the same is told."""
    told: list[list[str]] = [[], []]
    quick = PIIDetector(strategy, on_detection=lambda found, _: told[0].extend(item.type for item in found))
    slow = Looking(strategy, on_detection=lambda found, _: told[1].extend(item.type for item in found))
    chunks = data.draw(cut(text))
    assert await streamed(quick, chunks) == await streamed(slow, chunks)
    assert told[0] == told[1]


@pytest.mark.parametrize("text", INNOCENT_NUMBERS)
def test_ordinary_numbers_are_passed_without_a_look(text: str) -> None:
    """Counts, prices, years, times, dates, versions and lists cost no more than words do."""
    assert PIIFinder().skip_to(text, 0) == text.rindex(" ") + 1


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("It was in 1887", "1887"),
        ("It was in 1887 ", "1887 "),
        ("It was (27) (", "(27) ("),
        ("It is 3.11.7,", "3.11.7,"),
    ],
)
def test_number_at_the_end_waits_when_more_digits_may_follow(text: str, held: str) -> None:
    """A short number may still become the beginning of a long one."""
    assert text[PIIFinder().skip_to(text, 0) :] == held


@pytest.mark.parametrize("text", LOUD)
def test_text_is_looked_at_when_it_may_hold_a_detection(text: str) -> None:
    """Numbers that are long, or near others, or named, and words like those of keys."""
    assert PIIFinder().skip_to(text + " and so on", 0) == -1


@pytest.mark.parametrize("size", [1, 3, 24, 100])
@pytest.mark.parametrize(
    ("before", "token"),
    [
        ("", "SG." + "abcdefgh" * 2 + "." + "ijklmnop" * 2),
        ("", "AKIA" + "ABCDEFGH" * 2),
        ("", "whsec_" + "abcde+fg" * 3),
        ("hooks.slack.com/services/", "abc/defg/hijklmnop"),
    ],
)
async def test_token_is_found_when_it_has_neither_digits_nor_marks(
    before: str, token: str, size: int
) -> None:
    """Whether or not there are digits near it."""
    for text in (f"Use {before}{token} for it.", f"Use {before}{token} for 5 days."):
        chunks = cut_at(text, *range(size, len(text), size))
        assert token not in await streamed(PIIDetector(), chunks)
        assert await streamed(PIIDetector(), chunks) == await cleaned(PIIDetector(), text)


def test_text_is_looked_at_when_it_is_held_back_from_the_middle_of_a_word() -> None:
    """What makes the word a detection may be released already; from its beginning on it is harmless."""
    assert PIIFinder().skip_to("see -----BEGIN PRIVATE ", 7) == -1
    assert PIIFinder().skip_to("see the BEGIN PRIVATE ", 8) == len("see the BEGIN PRIVATE ")


@pytest.mark.parametrize(
    "text",
    [
        "x1y33704 0044 0532 0130 0000:1A:-1111",
        f"C{'7' * 30}3704 0044 0532 0130 00555-123-456{'7' * 26}MIIE123",
    ],
)
async def test_stream_is_the_same_when_what_follows_digits_makes_them_something_else(text: str) -> None:
    """A mark or a letter after a run changes it as a whole, also where its beginning could be released."""
    tested = PIIDetector(method="placeholder")
    expected = await cleaned(tested, text)
    for place in range(1, len(text)):
        assert await streamed(tested, cut_at(text, place)) == expected, place
    assert await streamed(tested, list(text)) == expected


@pytest.mark.parametrize("name", LONG_SECRETS)
@pytest.mark.parametrize("size", [1, 7, 64, 255, 256, 300, 5000])
async def test_long_secret_is_swallowed_when_it_passes_the_limit(name: str, size: int) -> None:
    """At the limit it is replaced, and nothing of it comes out to its end; what stands around it does."""
    text, part = LONG_SECRETS[name]
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    out = await streamed(PIIDetector(types=TYPES), chunks)
    assert part not in out
    assert out == await cleaned(PIIDetector(types=TYPES), text)
    assert out.endswith(" and so on.")


class Blind(PIIDetector):
    """Finds nothing, and holds back as much as something may begin in."""

    holdback_limit = 10**9
    batch = 1

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Find nothing."""
        del text, start, ctx
        return []

    def report(self, text: str, start: int, end: int, ctx: RunContext) -> None:
        """Report nothing."""


@pytest.mark.parametrize("strategy", ["redact", "block", "warn"])
def test_no_more_than_the_limit_is_held_back_of_benign_text(strategy: str) -> None:
    """Prose, tables and blobs of any length are released as they come, but for 256 characters."""
    tested = Blind(strategy)  # type: ignore[arg-type]
    for text in (*BENIGN, "a" * 2000, "1 " * 2000, "ab.cd-" * 500, "x@" * 600, "DE12 ab " * 300):
        held = HoldBack(tested, context(new_run()))
        out = 0
        for size, character in enumerate(text, 1):
            out += len(held.feed(character))
            assert size - out <= PIIDetector.holdback_limit


def chain(count: int) -> list[Processor]:
    """Return guards that stand one after the other: by themselves and side by side."""
    first = PIIDetector(types=["email", "phone", "card"], id="first")
    second = PIIDetector(types=TYPES, patterns={"badge": BADGE}, id="second")
    third = Parallel(
        PIIDetector(types=["ssn", "ip"], id="third"), PIIDetector(types=["secret"], id="fourth"), id="both"
    )
    guards: list[Processor] = [first, second, third]
    return guards[:count]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("size", [1, 5, 40, 700])
async def test_stream_result_and_store_are_equal_and_clean_after_several_guards(
    count: int, size: int
) -> None:
    """What was seen, what is returned and what is kept is one text, without anything personal in it."""
    text = "\n".join([*(sample.text for sample in SAMPLES), *(text for text, _ in LONG_SECRETS.values())])
    async with Memory() as memory:
        agent = Agent(ScriptedModel([text], chunk_size=size), memory=memory, output_processors=chain(count))
        events = await events_of(agent, "go")
        stored = (await memory.get_messages())[-1].text
    result = events[-1].result
    assert result is not None
    assert streamed_text(events) == result.text == stored
    for secret in (*(sample.secret for sample in SAMPLES), *(part for _, part in LONG_SECRETS.values())):
        assert secret not in stored
    assert stored.count(" and so on.") == len(LONG_SECRETS)
