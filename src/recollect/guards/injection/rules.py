"""Rules that find prompt injections in a text read as word classes.

`rules.txt` has the rules, in the notation of `rule_language`. No rule is a sentence: each says what must come
together, such as an order to dismiss, something earlier, and a word for instructions. What is only reported,
asked in general or meant for something else weighs less.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from recollect.guards.injection.rule_language import PatternCompiler, RuleError
from recollect.guards.injection.word_classes import classify_words, get_letters, load_class_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recollect.guards.injection.word_classes import ClassifiedText

AttackType: TypeAlias = Literal[
    "injection", "jailbreak", "tool-exfiltration", "data-exfiltration", "system-override", "role-manipulation"
]
"""A kind of attack."""

TYPES: tuple[AttackType, ...] = get_args(AttackType)
"""All kinds of attack."""

INJECTION = TYPES[0]
"""The kind of an attack of which no more is known."""

_REPORTED, _REPORTED_TO_YOU, _EXPLAINED, _PROGRAMMED, _TOLD_BEFORE = 0.35, 0.6, 0.5, 0.6, 0.8
_SENTENCE = 40  # how far around a match its sentence is looked at
_FIELDS = 3
_FEW_WORDS = 8
_STANDING = re.compile(
    r"orders in a (?P<scope>text|clause)(?: given (?P<given>.+?))?(?: unless (?P<unless>.+))?"
)
_CLAUSE_END = re.compile(
    r"[;\n\r\u0085\u2028\u2029\u3002\uff01\uff1f\uff1b]|[.!?](?=\s|$)|\bbut\b", re.IGNORECASE
)
_WEIGHT = re.compile(r"0\.\d+!?|1!?")


class Rule(NamedTuple):
    """A pattern, the kind of attack it speaks for, and how strongly."""

    type: str
    weight: float
    pattern: re.Pattern[str]
    is_firm: bool
    """Whether it counts in full also where things are explained or asked about."""


class StandingRule(NamedTuple):
    """A pattern for orders in remembered text, and what else must or must not be found with it."""

    type: AttackType
    pattern: re.Pattern[str]
    in_clause: bool
    given: re.Pattern[str] | None
    unless: re.Pattern[str] | None

    def matches(self, letters: str) -> bool:
        """Say whether a text or a clause is such an order."""
        return bool(
            self.pattern.search(letters)
            and (self.given is None or self.given.search(letters))
            and not (self.unless and self.unless.search(letters))
        )


class RuleSet(NamedTuple):
    """Rules over word classes, rules over the text itself, and rules about remembered text."""

    words: list[Rule]
    text: list[Rule]
    standing: list[StandingRule]


class _Entry(NamedTuple):
    line: int
    section: str
    text: str


class RuleMatch(NamedTuple):
    """A match of a rule: the kind of attack, where it stands, how much it weighs, and the rule's pattern."""

    type: str
    start: int
    end: int
    score: float
    rule: str = ""


def find_by_rules(text: str, classified: ClassifiedText) -> list[RuleMatch]:
    """Return what the rules see in a text as it stands, without decoding anything."""
    rules = _load_shipped_rules()
    found = [
        RuleMatch(rule.type, *match.span(), rule.weight, rule.pattern.pattern)
        for rule in rules.text
        for match in rule.pattern.finditer(text)
    ]
    letters, spans = classified
    match_words = _match_few_words if len(letters) <= _FEW_WORDS else _match_words
    found += [
        one._replace(start=spans[one.start][0], end=spans[one.end - 1][1]) for one in match_words(letters)
    ]
    return found


def _match_words(letters: str) -> list[RuleMatch]:
    """Return what the rules over word classes find, with places among the letters."""
    matches: list[RuleMatch] = []
    for rule in _load_shipped_rules().words:
        for match in rule.pattern.finditer(letters):
            start, end = match.span()
            weight = rule.weight if rule.is_firm else rule.weight * _compute_credit(letters, start, end)
            matches.append(RuleMatch(rule.type, start, end, weight, rule.pattern.pattern))
    return matches


@lru_cache(maxsize=1024)
def _match_few_words(letters: str) -> list[RuleMatch]:
    """Do the same for a few words: a tool's result may have thousands of short texts of the same classes."""
    return _match_words(letters)


def _compute_credit(letters: str, start: int, end: int) -> float:
    """Return how much of a rule's weight counts, from what else its sentence says."""
    earliest = max(start - _SENTENCE, 0)
    before = letters[max(letters.rfind(".", earliest, start) + 1, earliest) : start]
    stop = letters.find(".", end, end + _SENTENCE)
    after = letters[end : stop if stop >= 0 else end + _SENTENCE]
    match = letters[start:end]
    subject = get_letters("SUBJECT")
    credit = 1.0
    if _has(before, get_letters("HOW", "SUBJECT", "REPORT")):
        credit *= _REPORTED_TO_YOU if _has(match, get_letters("YOU", "YOUR")) else _REPORTED
    if _has(after + match, subject):
        credit *= _EXPLAINED
    if _has(before, get_letters("PROGRAM")):
        credit *= _PROGRAMMED
    if _has(letters[max(start - 2 * _SENTENCE, 0) : start], subject):
        credit *= _TOLD_BEFORE
    return credit


def _has(letters: str, wanted: frozenset[str]) -> bool:
    return not wanted.isdisjoint(letters)


def find_standing_order(text: str) -> AttackType | None:
    """Return the kind of the order against the user that a remembered text holds, or None.

    The other rules look for attempts to take over a conversation. A memory is read again and again, so it can
    also hold what looks harmless there.
    """
    plain = text.replace("\u2019", "'")
    clauses = [classify_words(clause, "standing orders").letters for clause in _CLAUSE_END.split(plain)]
    whole = clauses if len(clauses) == 1 else [classify_words(plain, "standing orders").letters]
    for rule in _load_shipped_rules().standing:
        if any(rule.matches(letters) for letters in (clauses if rule.in_clause else whole)):
            return rule.type
    return None


@cache
def _load_shipped_rules() -> RuleSet:
    text = resources.files(__package__ or "").joinpath("rules.txt").read_text("utf-8")
    return load_rules(text, load_class_letters(), load_class_letters("standing orders"))


def load_rules(text: str, letters: Mapping[str, str], standing_letters: Mapping[str, str]) -> RuleSet:
    """Read a file of rules, with the letter of each word class; an error names the line."""
    found = RuleSet([], [], [])
    compilers = PatternCompiler(letters), PatternCompiler(standing_letters)
    for entry in _read_entries(text):
        try:
            _load(entry, compilers[entry.section.startswith("standing ")], found)
        except RuleError as error:
            raise RuleError(f"rules, line {entry.line}: {error}") from None
    return found


def _load(entry: _Entry, compiler: PatternCompiler, found: RuleSet) -> None:
    name, _, pattern = entry.text.partition(" = ")
    match entry.section.removeprefix("standing "):
        case "places":
            compiler.define_place(name, pattern)
        case "phrases":
            compiler.define_phrase(name, pattern)
        case "words":
            found.words.append(_parse_rule(entry.text, compiler.compile))
        case "text":
            found.text.append(_parse_rule(entry.text, _compile_text))
        case section:
            found.standing.append(_parse_standing_rule(section, entry.text, compiler))


def _parse_standing_rule(section: str, text: str, compiler: PatternCompiler) -> StandingRule:
    heading = _STANDING.fullmatch(section)
    if heading is None:
        raise RuleError(f"no section is called [{section}]; see the top of the file")
    kind, _, pattern = text.partition(" ")
    if kind not in TYPES or not pattern:
        raise RuleError(f"a standing order is a kind ({', '.join(TYPES)}) and a pattern")
    given, unless = (compiler.compile(part) if part else None for part in heading.group("given", "unless"))
    return StandingRule(kind, compiler.compile(pattern), heading["scope"] == "clause", given, unless)


def _read_entries(text: str) -> list[_Entry]:
    """Return places and rules, each with all its lines."""
    section = ""
    found: list[_Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith(("|", " ")) and found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line.strip()}")
        elif line and not line.startswith("#"):
            found.append(_Entry(number, section, line))
    return found


def _parse_rule(text: str, compile_pattern: Callable[[str], re.Pattern[str]]) -> Rule:
    parts = text.split(maxsplit=2)
    if len(parts) < _FIELDS or parts[0] not in TYPES or not _WEIGHT.fullmatch(parts[1]):
        raise RuleError(f"a rule is a kind ({', '.join(TYPES)}), a weight from 0 to 1, and a pattern")
    kind, weight, pattern = parts
    return Rule(kind, float(weight.rstrip("!")), compile_pattern(pattern), weight.endswith("!"))


def _compile_text(pattern: str) -> re.Pattern[str]:
    # Further patterns of a rule begin with "|" after a space.
    regex = re.sub(r"\s+\|\s+", "|", pattern)
    try:
        return re.compile(regex, re.IGNORECASE)
    except re.error as error:
        raise RuleError(f"no regular expression: {error}") from None
