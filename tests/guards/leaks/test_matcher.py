"""Finding what a model was told in what it says: what is a leak, what is none, whatever the chunks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guards.leaks.prompts import find_leaks
from tests.support.profiles import examples
from tests.support.strategies import cut
from tests.support.timing import assert_costs_little_more, long_text

from recollect.guards.leaks.letter_reader import align_letters, extract_letters
from recollect.guards.leaks.matcher import LeakMatcher
from recollect.guards.leaks.ngram_index import NgramIndex, index_block, index_instructions

RULES = """You are a helpful assistant that serves the harbour office of Lindgren & Daughters.
Be polite. Never tell anybody that the night watchman sleeps from two to four.
The code word for the back door is Zanzibar-42. Greet people with "Ahoy and welcome to the quay!".
If somebody asks for berth prices, send them to the clerk, and mention that discounts end in May."""

INDEX = index_instructions(RULES)


def scrubbed(chunks: list[str], index: NgramIndex = INDEX, limit: int = 160) -> str:
    """Return what is released of a stream."""
    matcher = LeakMatcher(index, limit=limit, replacement="[X]")
    out = ""
    for chunk in chunks:
        out += matcher.feed(chunk)
        assert held_back(matcher) <= limit
    return out + matcher.finish()


def held_back(matcher: LeakMatcher) -> int:
    """Return how many characters are neither released nor replaced."""
    return len(matcher._text) + len(matcher._waiting)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nothing else asks


def whole(text: str, index: NgramIndex = INDEX) -> str:
    """Return what becomes of a whole text."""
    return scrubbed([text], index)


def retyped(text: str, seed: int) -> str:
    """Return a text in which every sixth word is another one."""
    pick = random.Random(seed)
    words = text.split()
    return " ".join(
        pick.choice(("maybe", "really", "quite")) if n % 6 == 3 else w for n, w in enumerate(words)
    )


@pytest.mark.parametrize(
    "said",
    [
        RULES,
        RULES.upper(),
        RULES.lower().replace(".", "").replace(",", " -"),
        " ".join(RULES),
        RULES.replace(" ", ""),
        RULES.replace(" ", "\n"),
        RULES.replace(" ", "   "),
        RULES.replace("a", "\u00e1").replace("e", "e\u0301"),
        "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in RULES),
        "- " + RULES.replace(" ", " **").replace(".", "** |"),
        retyped(RULES, 1),
        retyped(RULES, 2),
    ],
)
def test_repeated_instructions_are_found_however_they_are_written(said: str) -> None:
    """Case, accents, width, punctuation, spacing and other words here and there do not hide them."""
    after = extract_letters(whole(f"Sure, here you go: {said} That is all."))
    assert "[X]" in whole(said)
    for secret in ("watchmansleeps", "wordforthebackdoor", "discountsend", "lindgren"):
        assert secret not in after
    assert after.startswith("sure")
    assert after.endswith("thatisall")


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ("Well: Never tell anybody that the night watchman sleeps from two to four. Ok?", "Well: [X]. Ok?"),
        ("THE CODE WORD FOR THE BACK DOOR IS ZANZIBAR 42", "[X]"),
        ("It says the code word for the back door is Zanzibar-42!", "It says [X]!"),
        (
            "Never tell anyone that the night watchman usually sleeps from two until four, ok?",
            "[X] until four, ok?",
        ),
    ],
)
def test_only_the_leak_is_replaced(said: str, after: str) -> None:
    """What stands around it is released, whole words."""
    assert whole(said) == after


@pytest.mark.parametrize(
    "said",
    [
        "You are a helpful assistant.",
        "I am a helpful assistant that serves you. Be polite!",
        "be polite",
        "Ahoy and welcome to the quay! What can I do for you?",
        "Discounts end in May, and the clerk knows the prices.",
        "The night watchman told me to send them to the office.",
        "The watchman sleeps. The door is at the back. Zanzibar is an island.",
        "",
        " \n\t ",
        "\u4f60\u597d\u3002",
    ],
)
def test_ordinary_words_are_left_alone(said: str) -> None:
    """Stock phrases, what the agent is to say, facts in other words and short overlaps are no leaks."""
    assert whole(said) == said


def test_short_instructions_count_as_a_whole() -> None:
    """Four words are a leak if they are all there is, and say something; a common phrase never is."""
    assert whole("My orders: you are a PIRATE!", index_instructions("You are a pirate.")) == "My orders: [X]!"
    assert whole("You are a sailor.", index_instructions("You are a pirate.")) == "You are a sailor."
    for stock in (
        "You are a helpful assistant",
        "Be polite and helpful",
        "Du bist ein hilfreicher Assistent",
    ):
        assert whole(f"{stock}.", index_instructions(f"{stock}.")) == f"{stock}."


def test_scripts_without_blanks_are_covered() -> None:
    """In Chinese a sentence is a leak, and a few characters of it are none."""
    rules = "\u4f60\u662f\u6d77\u6e2f\u529e\u516c\u5ba4\u7684\u79d8\u4e66\u3002"
    rules += "\u4e0d\u8981\u544a\u8bc9\u4efb\u4f55\u4eba\u5bc6\u7801\u662f\u4e03\u4e03\u516b\u516b\u3002"
    index = index_instructions(rules)
    assert whole(f"\u597d\u7684\uff1a{rules}", index) == "\u597d\u7684\uff1a[X]\u3002"
    assert whole("\u6d77\u6e2f\u529e\u516c\u5ba4", index) == "\u6d77\u6e2f\u529e\u516c\u5ba4"
    stock = "\u4f60\u662f\u4e00\u4e2a\u6709\u7528\u7684\u52a9\u624b"
    assert whole(stock, index_instructions(stock)) == stock


def test_words_in_quotation_marks_are_for_the_agent_to_say() -> None:
    """They begin no leak, unless they are long enough to be rules; without the marks they do."""
    greeting = "Ahoy and welcome to the quay of our small town, where all boats are mended by hand"
    assert whole(greeting, index_instructions(f"Greet everybody with {greeting}.")) == "[X]"
    for left, right in ('""', "\u201c\u201d", "\u201e\u201c", "\u00ab\u00bb"):
        spoken = index_instructions(f"Greet everybody with {left}{greeting}{right}, and be brief.")
        assert whole(greeting, spoken) == greeting
    rules = f"{greeting}, and then say nothing of the spare keys"
    assert whole(rules, index_instructions(f'Greet everybody with "{rules}".')) == "[X]"


def test_what_somebody_knows_begins_no_leak() -> None:
    """Texts that may be told are left alone by themselves, and go with a leak that runs into them."""
    index = INDEX.without(["is it true that the night watchman sleeps from two to four?"])
    assert whole("Yes, the night watchman sleeps from two to four.", index).startswith("Yes, the night")
    assert "watchman" not in whole(RULES, index)
    assert INDEX.without(["nothing of this"]) is INDEX
    known = index_instructions("You are a pirate.").without(["You are a pirate?"])
    assert whole("You are a pirate.", known) == "You are a pirate."


def test_block_is_found_by_its_frame() -> None:
    """The frame is a leak and takes the block with it; what the block holds is none by itself."""
    frame = '<memory label="recalled from memory">\nWhat follows is quoted from memory for reference.'
    text = f"{frame}\nThe user's sister Marjory keeps seventeen bees in Aberdeen.\n</memory>"
    index = index_block(frame, frame.partition("\n")[0], text)
    assert whole("Your sister Marjory keeps seventeen bees in Aberdeen.", index).startswith("Your sister")
    assert whole(f"I see: {text}", index) == "I see: <[X]>"
    assert whole('memory label="recalled from memory" is what I see', index) == '[X]" is what I see'


def test_indexes_add_up() -> None:
    """One search looks for several texts, also for short sentences that end alike."""
    both = index_instructions("You are a pirate.") | index_instructions("She is no pirate.")
    both |= index_instructions("They call a pirate.")
    between = "And he hid in a barrel of salted herring."
    assert whole(f"You are a pirate. {between} They call a pirate.", both) == f"[X]. {between} [X]."
    assert not NgramIndex()
    assert (
        not index_instructions("Be nice.") or whole("Be nice.", index_instructions("Be nice.")) == "Be nice."
    )


segments = st.one_of(
    st.tuples(st.integers(0, 330), st.integers(1, 150)).map(lambda cut: RULES[cut[0] : sum(cut)]),
    st.sampled_from(
        ("the boat ", " ", "-" * 30, "\n", " " * 8, " " * 9, "x" * 40, "\u00fcn\u00ef", "\u65e5\u672c")
    ),
)
texts = st.lists(segments, max_size=8).map("".join)


@examples(3)
@given(st.data(), texts, st.sampled_from(("", " ", " " * 7, "." * 15)))
def test_chunks_make_no_difference(data: st.DataObject, text: str, between: str) -> None:
    """A stream is cleaned as the whole text is, no more than the limit is held back, and spans say where."""
    text = between.join(text) if between else text
    assert scrubbed(data.draw(cut(text))) == whole(text)
    rebuilt = text
    for leak in reversed(find_leaks(text, INDEX)):
        rebuilt = f"{rebuilt[: leak.start]}[X]{rebuilt[leak.end :]}"
        assert 0 < leak.score <= 1
    assert rebuilt == whole(text)


def test_a_word_of_which_a_part_is_out_is_as_long_as_it_was() -> None:
    """A leak behind a word without end begins at the same letter, whether the word begins outside or not."""
    end = RULES[18:67]
    for first in (RULES[:74], "Well", ""):
        text = f"{first}{'x' * 40}{end}"
        for place in range(1, len(text)):
            assert scrubbed([text[:place], text[place:]]) == whole(text)


def test_single_characters_and_random_chunks_of_a_long_leak() -> None:
    """A leak that is longer than the limit is swallowed to its end, cut anywhere."""
    text = f"Here it is: {RULES} {RULES} Done, and now about your boat, which is red."
    expected = whole(text)
    assert expected.endswith("Done, and now about your boat, which is red.")
    assert scrubbed(list(text)) == expected
    pick = random.Random(7)
    for _ in range(200):
        places = sorted(pick.sample(range(1, len(text)), pick.randint(1, 60)))
        assert (
            scrubbed([text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]) == expected
        )


def test_matcher_begins_anew_behind_an_end() -> None:
    """What one message begins the next one does not end; places count from its beginning."""
    matcher = LeakMatcher(INDEX, limit=160, replacement="[X]")
    half = "Never tell anybody that the"
    assert matcher.feed(half) + matcher.finish() == half
    rest = " night watchman sleeps"
    assert matcher.feed(rest) + matcher.finish() == rest
    matcher.feed("abc " + RULES.partition("polite. ")[2])
    assert matcher.is_inside
    assert matcher.leak_so_far().start == 4
    assert matcher.leak_so_far().score > 0.9


HOSTILE = {
    "the rules again and again": RULES * 600,
    "beginnings": "Never tell anybody" * 12_000,
    "seeds": "nevertellan xxxxxxxxxxxxxxxxxxxx " * 6_000,
    "blanks": " " * 200_000,
    "one letter": "a" * 200_000,
    "one character that is eighteen letters": "\ufdfa" * 70_000,
    "spaced": " ".join("night watchman" * 7_000),
    "breaks": ("n" + " " * 9) * 11_000,
}


@pytest.mark.parametrize("size", [1_000_000, 20])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_little_more_than_ordinary_text(name: str, size: int) -> None:
    """No text makes the search quadratic, in one chunk or in small ones."""
    ordinary = "Our ferry leaves at nine, and the crossing takes two hours in good weather; bring a coat. "

    def search(text: str) -> None:
        matcher = LeakMatcher(INDEX, limit=160, replacement="[X]")
        for place in range(0, len(text), size):
            matcher.feed(text[place : place + size])
        matcher.finish()

    assert_costs_little_more(search, long_text(ordinary, 200_000), HOSTILE[name][:200_000], times=50)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Zwölf, Über_1!", "zwolf  uber 1 "),
        ("Где й?", "где и "),
        ("a" + "." * 8 + "b", "a" + " " * 8 + "b"),
        ("a" + "." * 9 + "b", ""),
        ("é" + "—" * 9 + "b", ""),
        ("groß", ""),
        ("\ufb01n", ""),
        ("日本", ""),
        ("x\u2122", ""),
    ],
)
def test_plain_text_keeps_its_letters_in_their_places(text: str, form: str) -> None:
    """What stands for several letters, or has a long gap, is read letter by letter instead."""
    assert align_letters(text) == form


def test_plain_text_has_the_letters_that_any_text_has() -> None:
    """For characters of all scripts, more of them than are remembered."""
    for code in range(0, 0x30000, 7):
        text = f"a{chr(code)}b"
        assert align_letters(text).replace(" ", "") in ("", extract_letters(text)), hex(code)
