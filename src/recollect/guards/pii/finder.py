"""All kinds together: which are looked for, and where an unfinished detection may begin."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from recollect.guards.detection import Detection
from recollect.guards.holdback import hide_half_word
from recollect.guards.pii.birth_dates import BIRTHS, has_birth_words
from recollect.guards.pii.digit_runs import NumberKind, combine_number_kinds
from recollect.guards.pii.internet_addresses import EMAILS, IPS, MACS, URLS
from recollect.guards.pii.kinds import REACH, DataKind, merge_detections
from recollect.guards.pii.numbers import CARDS, IBANS, REGIONS, SSNS, NationalIds, has_open_letters
from recollect.guards.pii.phones import PHONES
from recollect.guards.pii.secrets import SECRETS, has_secret_words, has_token_prefix

DEFAULT_TYPES = ("email", "phone", "card", "ssn", "national_id", "iban", "ip", "mac", "secret", "dob")
"""What is looked for unless something else is said: nothing that is also ordinary text."""

TYPES = (*DEFAULT_TYPES, "url")
"""All kinds that the rules know."""

PATTERN_WIDTH = 128
"""How much text a stream holds back for patterns of the user's own."""

# Text without any of these is not searched, because it holds no detection: a new kind whose text may have
# none of them must be added here. It begins with one set of characters, so that the search skips all others
# quickly.
_MAYBE = re.compile(
    r"[0-9@_!#$%^&*~?-](?:(?<=[0-9@])|(?<=[_-])[A-Za-z0-9_-]{8}|(?<=[!#$%^&*~?])[A-Za-z]|(?<=-)----)"
)
# A number that is a word by itself, not after other digits, and too short to be a detection.
_SEPARATOR = r"[ .\-/()+\u00a0\u202f\u2011]"
_SHORT = (
    rf"(?<![^\s(\[*\"'`$€£|])(?<![A-Z]{{2}}\s)(?<!\d\s)(?<!\d{_SEPARATOR}\s)(?<!\d{_SEPARATOR}{{2}}\s)"
    r"(?:[0-9]{1,4}(?:[.:][0-9]{1,3}|st|nd|rd|th|s|%)?|[0-9]{1,3}(?:,[0-9]{3}){1,3}"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}){2}|(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2})(?!\.\.)[.,;:!?)\]*\"'`]{0,2}"
)
# After it stands a blank, and then what parts it from any other number.
_SEPARATED = r"(?=\s(?:[^\s\d.\-/()+\u2011]|\D{3}))"
_ORDINARY = re.compile(rf"(?:[^0-9@_:-]+|[_-](?!(?<=-)----)|:(?!//)|{_SHORT}{_SEPARATED})*+")
_SHORT_AT_END = re.compile(rf"{_SHORT}(?:\s[^0-9]{{0,2}})?\Z")
_SLICE = 16_384  # characters of a long text that are read together
_PATIENCE = 200  # how much waits with the word before it; a match that has begun waits for its end
_WRITTEN_BREAK = re.compile(r"\\{1,4}[nrt]")  # texts within texts have their backslashes doubled
_MAX_BACKSLASHES = 4
# Wide letters and the separators within detections, and digits of other scripts.
_OTHER_FORM = re.compile(
    r"[\uff05\uff08\uff09\uff0b\uff0d-\uff0f\uff21-\uff3a\uff3f\uff41-\uff5a]|\d(?<![0-9])"
)
_WIDE_OFFSET = 0xFEE0
_WORD = re.compile(r"\S*")


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
        """Take kinds, the countries whose national numbers count, patterns by name, and the lowest score."""
        national = NationalIds(regions)
        ssns = [SSNS] if "US" in regions else []
        in_texts = [EMAILS, IBANS, IPS, MACS, BIRTHS, *URLS, *SECRETS, national.lettered]
        in_runs = [CARDS, *ssns, national.in_runs, PHONES]

        def is_chosen(kind: DataKind | NumberKind) -> bool:
            return kind.name in types and kind.best >= threshold

        numbers = [kind for kind in in_runs if is_chosen(kind)]
        self._kinds = [kind for kind in in_texts if is_chosen(kind)]
        self._kinds += [combine_number_kinds(numbers)] if numbers else []
        self._patterns = [_make_pattern_kind(*item) for item in (patterns or {}).items()]
        kinds = (*self._patterns, *self._kinds)
        self._openings = [kind.open_from for kind in kinds if kind.open_from is not len]
        self._threshold = threshold
        self._has_urls = any(kind in URLS for kind in self._kinds)
        self._is_wide = self._has_urls or bool(patterns)  # looks for what any text may be
        self.has_kinds = bool(types or patterns)

    def find(self, text: str, start: int = 0) -> list[Detection]:
        """Return what is in a text, in order and without overlaps; what ends before `start` may lack."""
        # The user's own patterns may match text of any length: they read it whole.
        found = [item for kind in self._patterns for item in kind.find(text)]
        if len(text) > _SLICE:
            found += (item for _, items in self._find_in_slices(text, start) for item in items)
        else:
            found += self._find_kinds(text, start)
        return self._select(found) if found else found

    def find_in_pieces(self, text: str, start: int = 0) -> Iterator[list[Detection]]:
        """Yield what `find` returns, of a long text a piece at a time; no two pieces overlap."""
        if self._patterns or len(text) <= _SLICE:
            yield self.find(text, start)
            return
        waiting: list[Detection] = []
        for place, items in self._find_in_slices(text, start):
            waiting += items
            # The next slice is read from a little before its beginning on.
            closed = _move_before(place - REACH - 1, waiting)
            yield self._select(item for item in waiting if item.end <= closed)
            waiting = [item for item in waiting if item.end > closed]
        yield self._select(waiting)

    def _select(self, found: Iterable[Detection]) -> list[Detection]:
        return merge_detections(item for item in found if item.score >= self._threshold)

    def _find_kinds(self, text: str, start: int) -> list[Detection]:
        text = _normalize(text)
        if not (self._has_urls or _MAYBE.search(text, start) or has_token_prefix(text)):
            return []
        return [item for kind in self._kinds for item in kind.find(text)]

    def _find_in_slices(self, text: str, start: int) -> Iterator[tuple[int, list[Detection]]]:
        """Yield what is in each slice of a long text, and its end: what may still change is read again.

        A slice in which nothing is decided, such as a long private key, is read again at twice the size.
        """
        place, size = start, _SLICE
        while place < len(text):
            begin, end = max(place - REACH - 1, 0), min(place + size, len(text))
            window = hide_half_word(text[begin:end]) if begin else text[:end]
            found = self._find_kinds(window, place - begin)
            closed = _move_before(len(window) if end == len(text) else self.open_from(window), found)
            if closed <= place - begin:
                size *= 2
                continue
            items = [
                item._replace(start=begin + item.start, end=begin + item.end)
                for item in found
                if place - begin < item.end <= closed
            ]
            place, size = begin + closed, _SLICE
            yield place, items

    def open_from(self, text: str) -> int:
        """Return where something at the end of a text may begin that later text can complete or change.

        It is the beginning of a word, unless that is very long: a word in halves could look like another one.
        A backslash at the end may become a break, so it waits with all that stands open before it.
        """
        text = _normalize(_strip_half_break(text))
        place = min([_find_word_start(text), *(open_from(text) for open_from in self._openings)])
        if place == len(text):
            return place
        # What is given up at the end of patience must be the match, without what stands right before it.
        return max(_find_word_start(text[:place]), min(place, len(text) - _PATIENCE))

    def skip_to(self, text: str, start: int) -> int:
        """Return where the last word, or a short number before it, begins if all else is harmless; or -1.

        Most text is so, and this costs much less than a look. What stands before need not be known: whatever
        was not open at `start`, where a word begins, stays closed.
        """
        text = _normalize(text)
        ordinary = _ORDINARY.match(text, start)
        size, end = len(text), ordinary.end() if ordinary else start
        if self._is_wide or (end < size and not _SHORT_AT_END.match(text, end)):
            return -1
        word = _find_word_start(text if end == size else text[:end])
        if size - word >= REACH or (start and not text[start - 1].isspace()) or has_birth_words(text, start):
            return -1
        if has_token_prefix(text) or (_MAYBE.search(text, start) and has_secret_words(text, start)):
            return -1
        return -1 if not text[-1:].islower() and has_open_letters(text) else word


def _move_before(place: int, found: Iterable[Detection]) -> int:
    """Return the last place up to a given one that is within no detection."""
    for item in sorted(found, reverse=True, key=lambda item: item.start):
        place = item.start if item.start < place < item.end else place
    return place


def _make_pattern_kind(name: str, pattern: re.Pattern[str]) -> DataKind:
    def find(text: str) -> list[Detection]:
        return [Detection(name, *match.span()) for match in pattern.finditer(text) if match[0]]

    # Where a match of it may begin is not known.
    return DataKind(name, find, _open_pattern)


def _open_pattern(text: str) -> int:
    return max(0, len(text) - PATTERN_WIDTH)


def _normalize(text: str) -> str:
    """Return a text of the same length as the rules read it.

    It has real breaks for those written out, as in logs and JSON, and the usual letters, marks and digits for
    wide ones and for digits of other scripts.
    """
    if "\\" in text:
        text = _WRITTEN_BREAK.sub(_to_line_break, text)
    return text if text.isascii() else _OTHER_FORM.sub(_normalize_character, text)


def _normalize_character(other: re.Match[str]) -> str:
    return str(int(other[0])) if other[0].isdecimal() else chr(ord(other[0]) - _WIDE_OFFSET)


def _strip_half_break(text: str) -> str:
    """Return a text without backslashes at its end that may be the beginning of a break."""
    tail = text[-_MAX_BACKSLASHES:]
    return text[: len(text) - len(tail) + len(tail.rstrip("\\"))]


def _to_line_break(written: re.Match[str]) -> str:
    return "\n".rjust(len(written[0]))


def _find_word_start(text: str) -> int:
    """Return where the last word begins, but no further back than a rule reaches."""
    found = _WORD.match(text[: -REACH - 1 : -1])
    return len(text) - (found.end() if found else 0)
