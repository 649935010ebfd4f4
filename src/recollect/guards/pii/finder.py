"""All rules together: which kinds are looked for, and what of a text may still become a finding."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from recollect.guards.pii.births import find_births, names_birth, open_birth
from recollect.guards.pii.finding import REACH, Finding, settled
from recollect.guards.pii.numbers import REGIONS, NationalIds, find_cards, find_ibans, find_ssns, open_iban
from recollect.guards.pii.online import find_emails, find_ips, find_macs, find_urls, open_email, open_url
from recollect.guards.pii.phones import find_phones, find_written_phones
from recollect.guards.pii.secrets import (
    begins_token,
    find_private_keys,
    find_secrets,
    names_secret,
    open_private_key,
    open_secret,
)

DEFAULT_TYPES = ("email", "phone", "card", "ssn", "national_id", "iban", "ip", "mac", "secret", "dob")
"""What is looked for unless something else is said: nothing that is also ordinary text."""

TYPES = (*DEFAULT_TYPES, "url")
"""All kinds that the rules know."""

PATTERN_WIDTH = 128
"""How much text a stream holds back for patterns of the user's own."""

# It begins with one set of characters, which most text has none of: the search then skips all others.
_MAYBE = re.compile(
    r"[0-9@_!#$%^&*~?-](?:(?<=[0-9@])|(?<=[_-])[A-Za-z0-9_-]{8}|(?<=[!#$%^&*~?])[A-Za-z]|(?<=-)----)"
)
# A number that is a word by itself, not behind other digits, and too short to be a finding.
_MARK = r"[ .\-/()+\u00a0\u202f\u2011]"
_SHORT = (
    rf"(?<![^\s(\[*\"'`$€£|])(?<![A-Z]{{2}}\s)(?<!\d\s)(?<!\d{_MARK}\s)(?<!\d{_MARK}{{2}}\s)"
    r"(?:[0-9]{1,4}(?:[.:][0-9]{1,3}|st|nd|rd|th|s|%)?|[0-9]{1,3}(?:,[0-9]{3}){1,3}"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}){2}|(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2})(?!\.\.)[.,;:!?)\]*\"'`]{0,2}"
)
# Behind it stands a blank, and then what parts it from any other number.
_APART = r"(?=\s(?:[^\s\d.\-/()+\u2011]|\D{3}))"
_QUIET = re.compile(rf"(?:[^0-9@_:-]+|[_-](?!(?<=-)----)|:(?!//)|{_SHORT}{_APART})*+")
_SHORT_AT_END = re.compile(rf"{_SHORT}(?:\s[^0-9]{{0,2}})?\Z")
_RUN = re.compile(r"(?:\+\(?|\(\+?)?(?<!\d)\d(?:[ .\-/()\u00a0\u202f\u2011]{0,3}\d)*")
_LONGEST_RUN = 60  # of what is judged as a whole; a stream still knows so much of what it let out
_LONGEST_NUMBER = 40
_LEAST_DIGITS = 7
_PATIENCE = 200  # how much waits with the word before it; a match that has begun waits for its end
_RUN_BACKWARDS = re.compile(r"[ .\-/()+\u00a0\u202f\u20110-9]*")
_EXTENSION_OPEN = re.compile(r"(?<=[\d)]) ?(?:#|[eExX][A-Za-z]{0,8}\.?) ?\d{0,6}\Z|(?<=\d)[:_@]\Z")
_TWO_LETTERS = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2} (?:\d ?){0,6}[A-Z]?\Z")
_LETTER = re.compile(r"[A-Za-z_]")
_GOES_ON = re.compile(r"[:_@]\w|(?![eExX#])[A-Za-z]|[eExX](?!xt|\d| )")
_WRITTEN_BREAK = re.compile(r"\\{1,4}[nrt]")  # texts within texts have their backslashes doubled
_MOST_BACKSLASHES = 4
# Wide letters and the marks within findings, and digits of other scripts.
_OTHER_FORM = re.compile(
    r"[\uff05\uff08\uff09\uff0b\uff0d-\uff0f\uff21-\uff3a\uff3f\uff41-\uff5a]|\d(?<![0-9])"
)
_WIDER = 0xFEE0
_DIGIT = re.compile(r"[0-9]")
_BLANKS = re.compile(r"\S*")

RunRule = Callable[[str, int, int], Iterator[Finding]]
TextRule = Callable[[str], Iterator[Finding]]


class PIIFinder:
    """Finds personal data of chosen kinds; holds settings only, so that one finder serves many texts."""

    def __init__(
        self,
        types: Collection[str] = DEFAULT_TYPES,
        *,
        regions: Collection[str] = REGIONS,
        patterns: Mapping[str, re.Pattern[str]] | None = None,
        threshold: float = 0.5,
    ) -> None:
        """Take kinds, the countries whose national numbers count, patterns by name, and the least score."""
        self._threshold = threshold
        self._regions = frozenset(regions)
        self._national = NationalIds(self._regions)
        self._patterns = dict(patterns or {})
        self._types = frozenset(types)
        known: dict[str, TextRule] = {
            "email": find_emails,
            "iban": find_ibans,
            "ip": find_ips,
            "mac": find_macs,
            "dob": find_births,
            "url": find_urls,
            "secret": find_all_secrets,
            "national_id": self._national.find,
        }
        self._rules = [rule for name, rule in known.items() if name in self._types]
        self._run_rules = list(self._chosen_run_rules())
        self._is_wide = bool(self._patterns) or "url" in self._types  # looks for what any text may be

    @property
    def looks_for_something(self) -> bool:
        """Whether there is a kind or a pattern to look for."""
        return bool(self._types or self._patterns)

    def find(self, text: str, start: int = 0) -> list[Finding]:
        """Return what is in a text, in order and without overlaps; what ends before `start` may lack."""
        found = [
            Finding(name, *match.span())
            for name, pattern in self._patterns.items()
            for match in pattern.finditer(text)
            if match.end() > match.start()
        ]
        text = _plain(text)
        if "url" in self._types or _MAYBE.search(text, start) or begins_token(text):
            for rule in self._rules:
                found += rule(text)
            if self._run_rules:
                found += self._in_runs(text)
        return settled(item for item in found if item.score >= self._threshold) if found else found

    def open_from(self, text: str) -> int:
        """Return where something at the end of a text may begin that later text can complete or change.

        It is the beginning of a word, unless that is very long: a word in halves could look like another one.
        A backslash at the end may become a break, so it waits with all that stands open before it.
        """
        text = _plain(_without_half_break(text))
        place = self._open(text)
        if place == len(text):
            return place
        # What is given up at the end of patience must be the match, without what stands right before it.
        return max(_begin_of_word(text[:place]), min(place, len(text) - _PATIENCE))

    def skip_to(self, text: str, start: int) -> int:
        """Return where the last word begins, or a short number before it, if all else is no finding; or -1.

        Most text is so, and this costs much less than a look. What stands before need not be known: whatever
        was not open at `start`, where a word begins, stays closed.
        """
        text = _plain(text)
        quiet = _QUIET.match(text, start)
        size, end = len(text), quiet.end() if quiet else start
        if self._is_wide or (end < size and not _SHORT_AT_END.match(text, end)):
            return -1
        word = _begin_of_word(text if end == size else text[:end])
        if size - word >= REACH or (start and not text[start - 1].isspace()) or names_birth(text, start):
            return -1
        if begins_token(text) or (_MAYBE.search(text, start) and names_secret(text, start)):
            return -1
        if not text[-1:].islower() and _TWO_LETTERS.search(text, max(0, size - 4)):
            return -1
        return word

    def _open(self, text: str) -> int:
        size = len(text)
        word = _begin_of_word(text)
        place = min(word, open_private_key(text))
        if self._patterns:
            place = min(place, max(0, size - PATTERN_WIDTH))
        if "url" in self._types:
            place = min(place, open_url(text))
        tail = text[-REACH:]
        if "@" in tail or size - word >= REACH:
            place = min(place, open_email(text), open_secret(text))
        elif "://" in tail:
            place = min(place, open_secret(text))
        place = min(place, open_birth(text))
        if _DIGIT.search(tail):
            place = min(place, open_iban(text), _open_run(text))
        if tail[-1:].islower():
            return place
        two = _TWO_LETTERS.search(tail)
        return min(place, size - len(tail) + two.start()) if two else place

    def _chosen_run_rules(self) -> Iterator[tuple[RunRule, RunRule]]:
        if "card" in self._types:
            yield find_cards, find_cards
        if "ssn" in self._types and "US" in self._regions:
            yield find_ssns, find_ssns
        if "national_id" in self._types:
            yield self._national.find_in_run, _nothing
        if "phone" in self._types:
            yield find_phones, find_written_phones

    def _in_runs(self, text: str) -> Iterable[Finding]:
        for run in _RUN.finditer(text):
            if run.end() - run.start() >= _LEAST_DIGITS:
                start, end = _without_halves(text, *run.span())
                # How long a run is must not depend on what comes behind it: a stream does not know that yet.
                is_long = run.end() - run.start() > _LONGEST_RUN
                for short, long in self._run_rules if end - start >= _LEAST_DIGITS else ():
                    yield from (long if is_long else short)(text, start, end)


def _plain(text: str) -> str:
    """Return a text of the same length as the rules read it.

    It has real breaks for those written out, as in logs and JSON, and the usual letters, marks and digits for
    wide ones and for digits of other scripts.
    """
    if "\\" in text:
        text = _WRITTEN_BREAK.sub(_break, text)
    return text if text.isascii() else _OTHER_FORM.sub(_usual_form, text)


def _usual_form(other: re.Match[str]) -> str:
    return str(int(other[0])) if other[0].isdecimal() else chr(ord(other[0]) - _WIDER)


def _without_half_break(text: str) -> str:
    """Return a text without backslashes at its end that may be the beginning of a break."""
    tail = text[-_MOST_BACKSLASHES:]
    return text[: len(text) - len(tail) + len(tail.rstrip("\\"))]


def _break(written: re.Match[str]) -> str:
    return "\n".rjust(len(written[0]))


def find_all_secrets(text: str) -> Iterator[Finding]:
    """Find secrets of one word and private keys."""
    if "-----BEGIN" in text:
        yield from find_private_keys(text)
    yield from find_secrets(text)


def _nothing(_: str, __: int, ___: int) -> Iterator[Finding]:
    yield from ()


def _without_halves(text: str, start: int, end: int) -> tuple[int, int]:
    """Cut off the first and the last word of a run where letters or other marks make them something else."""
    if start and _DIGIT.match(text, start) and _LETTER.match(text, start - 1):
        blank = text.find(" ", start, end)
        start = blank + 1 if blank >= 0 else end
    if _GOES_ON.match(text, end):
        blank = text.rfind(" ", start, end)
        end = blank if blank >= 0 else start
    return start, end


def _begin_of_word(text: str) -> int:
    """Return where the last word begins, but no further back than a rule reaches."""
    found = _BLANKS.match(text[: -REACH - 1 : -1])
    return len(text) - (found.end() if found else 0)


def _open_run(text: str) -> int:
    """Return where digits at the end of a text begin, or the last of them that still may be a number."""
    extension = _EXTENSION_OPEN.search(text, max(0, len(text) - 20))
    end = extension.start() if extension else len(text)
    reach = text[max(0, end - REACH - 1) : end]
    found = _RUN_BACKWARDS.match(reach[::-1])
    size = found.end() if found else 0
    if not _DIGIT.search(reach, len(reach) - size):
        return len(text)
    if size <= _LONGEST_RUN:
        return end - size
    begin = end - _LONGEST_NUMBER
    while begin > 0 and text[begin - 1].isdigit():
        begin -= 1
    return max(begin, end - REACH)
