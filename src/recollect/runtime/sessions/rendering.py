"""Renders sessions for the model: quoted as data, one line a message, at most `MAX_CHARACTERS`.

Texts are quoted like all that memory shows. Ids and titles are JSON, so that a model can repeat them.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from recollect.messages import Message
from recollect.storage.records import DEFAULT_TITLE, Thread
from recollect.text.quoting import fence_text, quote, quote_inline
from recollect.text.terms import terms_of

MAX_CHARACTERS = 12_000
"""The maximum length of the tool's answer."""
_SNIPPET_CHARACTERS = 300  # of a message, around the words that matched
_FENCE_CHARACTERS = 300  # its marks, its rule, and the line that says that something is missing
_LENGTHS = (6_000, 3_000, 1_500, 800, 400, 250, 150, 80, 40)  # of one text, until all of them fit
_MAX_TITLE_LENGTH = 80
_STEPS = 6


@dataclass(frozen=True, slots=True)
class SessionHit:
    """A message that was found, the words around the match, and what was said right before and after it."""

    message: Message
    snippet: str
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session in which something was found, the best hit first."""

    session: Thread
    hits: tuple[SessionHit, ...]


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session, and the words that it began with."""

    session: Thread
    first_words: str


@dataclass(frozen=True, slots=True)
class Passage:
    """Messages of one session in order; with a `tail`, the messages between the two are left out."""

    session: Thread
    messages: tuple[Message, ...]
    tail: tuple[Message, ...] = ()


def quote_matches(matches: Sequence[SessionMatch]) -> str:
    """Return each session with its hits, marked by ">", and the messages around the best hit."""

    def lines(length: int) -> list[str]:
        found: list[str] = []
        for match in matches:
            found.append(_format_heading(match.session))
            for hit in match.hits:
                found += [_quote_message(message, length) for message in hit.before]
                found.append(quote_hit(hit))
                found += [_quote_message(message, length) for message in hit.after]
        return found

    return _fit("found in other sessions", lines)


def quote_passage(passage: Passage, marked: str | None = None) -> str:
    """Return messages of a session; the one with the id `marked` gets a ">"."""

    def lines(length: int) -> list[str]:
        found = [_format_heading(passage.session)]
        found += [
            _quote_message(message, length, mark=">" if message.id == marked else " ")
            for message in passage.messages
        ]
        if passage.tail:
            found.append("  … (what is between is left out; scroll to see it)")
        return found + [_quote_message(message, length) for message in passage.tail]

    return _fit("from a session", lines)


def quote_summaries(summaries: Sequence[SessionSummary]) -> str:
    """Return the sessions with the words that each began with."""

    def lines(length: int) -> list[str]:
        return [
            f"{_format_heading(summary.session)} {quote_inline(summary.first_words, min(length, 200))}"
            for summary in summaries
        ]

    return _fit("recent sessions", lines)


def quote_hit(hit: SessionHit) -> str:
    """Return the line of a message that was found."""
    return _format_line(hit.message, quote(hit.snippet), mark=">")


def find_snippet(text: str, wanted: Collection[str], within: tuple[int, int] | None = None) -> str:
    """Return the part of a text, or of one segment of it, that has most of the wanted terms."""
    width = _SNIPPET_CHARACTERS
    if len(text) <= width:
        return text
    low, high = within or (0, len(text))
    starts = [*range(low, high - width, width // _STEPS), max(0, high - width)]
    terms = frozenset(wanted)
    scores = [len(terms.intersection(terms_of(text[start : start + width]))) for start in starts]
    first = last = scores.index(max(scores))
    while last + 1 < len(scores) and scores[last + 1] == scores[first]:
        last += 1
    start = starts[(first + last) // 2] if starts[first] else 0  # from the middle of where it could begin
    end = start + width
    return ("… " if start else "") + text[start:end].strip() + (" …" if end < len(text) else "")


def _fit(label: str, lines: Callable[[int], list[str]]) -> str:
    """Return lines as quoted data, with texts so short that all fit; what still does not is left out."""
    room = MAX_CHARACTERS - _FENCE_CHARACTERS
    shown: list[str] = []
    for length in _LENGTHS:
        shown = lines(length)
        if _count_characters(shown) <= room:
            return fence_text(label, "\n".join(shown))
    while _count_characters(shown) > room:
        shown.pop()
    return fence_text(label, "\n".join([*shown, "(more was found than can be shown; narrow the search)"]))


def _count_characters(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _format_heading(session: Thread) -> str:
    is_named = session.title not in ("", DEFAULT_TITLE)
    title = f" {_to_json(quote_inline(session.title, _MAX_TITLE_LENGTH))}" if is_named else ""
    when = session.last_message_at or session.created_at
    count = session.message_count
    return f"Session {_to_json(session.id)}{title}, last message {_format_time(when)}, {count} messages:"


def _quote_message(message: Message, length: int, *, mark: str = " ") -> str:
    return _format_line(message, quote(message.text, length), mark=mark)


def _format_line(message: Message, quoted: str, *, mark: str) -> str:
    return (
        f"{mark} {_format_time(message.created_at)} {message.role} (message {_to_json(message.id)}): {quoted}"
    )


def _to_json(text: str) -> str:
    """Return an id or a title as JSON, which has no line breaks; what can be read stays as it is."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
