"""The notation of rules: what each element compiles to, what it finds, and what is said about mistakes."""

import pytest

from recollect.guards.injection.rule_language import PatternCompiler, RuleError
from recollect.guards.injection.rules import load_rules
from recollect.guards.injection.word_classes import (
    SYMBOLS,
    get_letters,
    load_class_letters,
    load_word_classes,
)

LETTERS = {
    "DISMISS": "D",
    "PRIOR": "P",
    "ALL": "A",
    "RULE": "I",
    "THE": "e",
    "QUOTE": '"',
    "STOP": ".",
    "OF": "f",
}


@pytest.mark.parametrize(
    ("pattern", "regex"),
    [
        ("DISMISS PRIOR", "DP"),
        ("PRIOR/ALL", "[PA]"),
        ("PRIOR/ALL? RULE", "[PA]?I"),
        ("(DISMISS ALL|PRIOR) RULE", "(?:DA|P)I"),
        ("DISMISS gap(3) RULE", r"D[^\.]{0,3}I"),
        ("DISMISS short-gap(3 not ALL/PRIOR) RULE", r"D[^\.AP]{0,3}?I"),
        ("gap(3 not ALL/THE+OF)", r"(?:[^\.Ae]|e(?!f)){0,3}"),
        ("DISMISS up-to(2 THE/OF) RULE", "D[ef]{0,2}I"),
        ("RULE any(STOP/QUOTE) text-end", r'I[\."]*\Z'),
        ("text-start DISMISS?", r"\AD?"),
        ("text-start DISMISS", r"(?=D)\AD"),
        ("RULE not-followed-by(OF THE?)", "I(?!fe?)"),
        ("RULE followed-by(OF|text-end)", r"I(?=f|\Z)"),
        ("after(ALL THE) RULE not-after(OF)", "(?<=Ae)I(?<!f)"),
        ("start-or-after(STOP/THE) RULE", r"(?<![^\.e])I"),
        ("quoted(4)", '"[^"]{1,4}"'),
    ],
)
def test_a_pattern_compiles_to_a_regular_expression_over_letters(pattern: str, regex: str) -> None:
    """Each element of the notation."""
    assert PatternCompiler(LETTERS).compile(pattern).pattern == regex


def test_a_place_that_is_defined_stands_for_its_pattern() -> None:
    """The class after it is looked at first, since that is cheaper; one that may be missing is not."""
    compiler = PatternCompiler(LETTERS)
    compiler.define_place("order", "start-or-after(STOP) | after(ALL THE)")
    assert compiler.compile("order DISMISS").pattern == r"(?=D)(?:(?<![^\.])|(?<=Ae))D"
    assert compiler.compile("order THE? DISMISS").pattern == r"(?:(?<![^\.])|(?<=Ae))e?D"
    pattern = compiler.compile("order DISMISS/ALL gap(2) RULE")
    assert [bool(pattern.search(text)) for text in ("DPI", "PDI", "AeDI", ".DxxI", "DxxxI", "D.I")] == [
        *(True, False, True, True, False, False)
    ]


def test_a_phrase_that_is_defined_takes_up_words() -> None:
    """So nothing is looked at before it."""
    compiler = PatternCompiler(LETTERS)
    compiler.define_phrase("rules", "ALL RULE|PRIOR")
    assert compiler.compile("rules OF").pattern == "(?:AI|P)f"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("DISMIS PRIOR", "nothing is called DISMIS; did you mean DISMISS?"),
        ("PRIOR/XYZ", "nothing is called XYZ"),
        ("textstart DISMISS", "nothing is called textstart; did you mean text-start?"),
        ("gaps(3)", "nothing is called gaps; did you mean gap?"),
        ("gap(PRIOR)", r"write gap\(3\) or gap\(3 not A/B\)"),
        ("up-to(3)", r"write up-to\(3 A/B\)"),
        ("any PRIOR", r"write any\(A/B\)"),
        ("(DISMISS|PRIOR", "do not fit together: missing \\)"),
        ("?DISMISS", "do not fit together: nothing to repeat"),
        ("DISMISS*", "'\\*' means nothing in a pattern"),
    ],
)
def test_a_mistake_in_a_pattern_is_named(pattern: str, problem: str) -> None:
    """With what was probably meant, or how the element is written."""
    with pytest.raises(RuleError, match=problem):
        PatternCompiler(LETTERS).compile(pattern)


RULES = """# A comment.

[places]
order = start-or-after(STOP)
  | after(ALL)

[words]
injection  0.7   order DISMISS
             RULE
|                PRIOR
jailbreak  0.5!  ALL ALL

[text]
injection  0.5   <system>
|                <user>
"""


def test_a_file_of_rules_has_places_rules_over_words_and_rules_over_text() -> None:
    """A line that begins with a space goes on, one with | adds a pattern, and ! makes a rule firm."""
    first, second = load_rules(RULES, LETTERS, LETTERS).words
    (over_text,) = load_rules(RULES, LETTERS, LETTERS).text
    assert first.pattern.pattern == r"(?=D)(?:(?<![^\.])|(?<=A))DI|P"
    assert (first.type, first.weight, first.is_firm) == ("injection", 0.7, False)
    assert (second.type, second.weight, second.is_firm) == ("jailbreak", 0.5, True)
    assert over_text.pattern.search("a <USER> b")


def test_a_standing_order_counts_only_with_what_is_given_and_without_what_must_not_be_there() -> None:
    """Its section says so, and where it is looked for."""
    heading = "[standing orders in a clause given THE unless forbids|OF]"
    text = f"[standing phrases]\nforbids = PRIOR PRIOR\n{heading}\njailbreak DISMISS gap(2) RULE\n"
    (rule,) = load_rules(text, {}, LETTERS).standing
    assert (rule.type, rule.in_clause) == ("jailbreak", True)
    found = [rule.matches(letters) for letters in ("DeI", "DI", "DeIf", "PPDeI", "PDeI")]
    assert found == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[words]\ninjection 0.7 DISMIS", "rules, line 2: nothing is called DISMIS"),
        ("[words]\n\ninjection 0.7", "rules, line 3: a rule is a kind"),
        ("[words]\nmischief 0.7 DISMISS", "rules, line 2: a rule is a kind"),
        ("[words]\ninjection 7 DISMISS", "rules, line 2: a rule is a kind"),
        ("[text]\ninjection 0.7 (system", "rules, line 2: no regular expression"),
        ("[standing orders in a clause]\ninjection", "rules, line 2: a standing order is a kind"),
        ("[standing orders in a clause unless X]\ninjection ALL", "rules, line 2: nothing is called X"),
        ("[standing orders in a page]\ninjection ALL", "rules, line 2: no section is called"),
        ("injection 0.7 DISMISS", r"rules, line 1: no section is called \[\]"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(line: str, problem: str) -> None:
    """Whoever writes a rule learns where the mistake is."""
    with pytest.raises(RuleError, match=problem):
        load_rules(line, LETTERS, LETTERS)


def test_every_class_of_the_lexicon_has_its_own_name_and_letter() -> None:
    """No two headings share either, and none takes the letter of a symbol."""
    letters = load_class_letters()
    assert len(set(letters.values())) == len(letters) == len(load_word_classes("guard")) + len(SYMBOLS)
    assert get_letters("DISMISS", "STOP") == {"D", "."}
