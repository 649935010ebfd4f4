"""The form of curated files, and the edits between two states, as laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.timing import assert_costs_little_more

from recollect.backends.curated.entries import (
    DELIMITER,
    apply_edits,
    count_characters,
    describe_usage,
    diff_entries,
    find_entry_problem,
    parse,
    revert_edits,
    serialise,
)

TRICKY = st.text(st.sampled_from("ab§ \n\r\t\u2028\ufeff\x0b"), max_size=12)
TEXTS = st.one_of(TRICKY, st.text(max_size=30))
ENTRY_LISTS = st.lists(TEXTS.filter(lambda text: find_entry_problem(text) is None), max_size=6)
SMALL_LISTS = st.lists(st.sampled_from("abcdef"), max_size=7)


@given(ENTRY_LISTS, st.sampled_from(["", "\ufeff"]), st.sampled_from(["", "\n", "\n\n"]))
def test_what_is_written_is_read_back(entries: list[str], start: str, ending: str) -> None:
    """Whatever may be an entry comes back as it is, and with it the mark and the end of the file."""
    parsed = parse(serialise(entries, start, ending))
    assert parsed == (tuple(entries), start, ending, None)
    assert count_characters(entries) == len(DELIMITER.join(entries))


@given(st.one_of(TEXTS, st.lists(TEXTS, max_size=4).map(DELIMITER.join)))
def test_file_is_either_refused_or_written_as_it_was(text: str) -> None:
    """A file that may be changed round-trips to the character, unless it has nothing but whitespace."""
    parsed = parse(text)
    same = serialise(parsed.entries, parsed.start, parsed.ending) == text
    assert same or parsed.problem or not text.removeprefix("\ufeff").strip()
    if not parsed.problem:
        assert all(find_entry_problem(entry) is None for entry in parsed.entries)


@pytest.mark.parametrize(
    "text",
    [
        "a\n§\n\n§\nb",
        "a\n§\n",
        "a\n§",
        "§\na",
        "a\r\n§\r\nb",
        "a\n§ \nb",
        "a\n§\n§\nb",
        "a\n\n§\nb",
        " a",
        "a \n",
        "a\r\n",
    ],
)
def test_file_that_would_not_come_back_the_same_has_a_problem(text: str) -> None:
    """Empty entries, broken delimiters and stray whitespace are noticed, and the entries still shown."""
    parsed = parse(text)
    assert parsed.problem
    assert parsed.entries


@pytest.mark.parametrize("text", ["a\r\n§\r\nb", "a\r\n", "a\r\n\r\n§\r\nb\r\n"])
def test_windows_line_ends_are_named_and_not_what_follows_from_them(text: str) -> None:
    """Whoever looks at such a file sees nothing that is wrong with it."""
    assert parse(text).problem == "it has Windows line ends"


@pytest.mark.parametrize("text", ["", "\n", "  \n ", "\ufeff", "a\n", "a\n\n", "a § b", "§a\nb§", "a\nb"])
def test_file_that_a_person_left_in_good_form_has_no_problem(text: str) -> None:
    """Line breaks at the end, a mark at the start, and a § within a line are all fine."""
    assert parse(text).problem is None


def test_usage_is_said_in_percent_and_characters() -> None:
    """The delimiter counts."""
    assert describe_usage(["ab", "cd"], 70) == "10% — 7/70 chars"


@given(SMALL_LISTS, SMALL_LISTS)
def test_edits_lead_from_one_state_to_the_other_and_back(old: list[str], new: list[str]) -> None:
    """The log can be followed forwards; applied to another state the edits say so instead of guessing."""
    edits = diff_entries(old, new)
    assert apply_edits(old, edits) == tuple(new)
    assert diff_entries(old, old) == ()
    if len(set(old)) == len(old) and len(set(new)) == len(new):
        assert sorted(revert_edits(new, edits) or ()) == sorted(old)


def test_many_entries_that_are_the_same_cost_little() -> None:
    """A file that somebody has filled with one line holds no writer up."""
    same, different = ["a"] * 100_000, [f"{number}" for number in range(100_000)]
    assert len(diff_entries(same, same[1:])) == 1
    assert_costs_little_more(lambda entries: diff_entries(entries, entries[1:]), different, same)


def test_edits_are_undone_although_others_were_made_since() -> None:
    """An entry is found wherever it is now; one that is gone is not."""
    edits = diff_entries(["a"], ["a", "b"])
    assert revert_edits(["x", "b", "a", "y"], edits) == ("x", "a", "y")
    assert revert_edits(["a", "c"], edits) is None
    assert revert_edits(["a"], diff_entries(["a", "b"], ["a"])) == ("a", "b")
    assert revert_edits(["x", "b", "a"], diff_entries(["a"], ["b"])) == ("x", "a")
    assert revert_edits(["x", "b", "a"], diff_entries(["a", "b"], ["b", "a"])) == ("x", "b", "a")
