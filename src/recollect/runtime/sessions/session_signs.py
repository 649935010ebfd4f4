"""Words of one sign in sessions: Chinese, Japanese and Korean are indexed by pairs, in which these are lost.

So they are looked for in the texts themselves, in the newest talk.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from recollect.recall.results import Hit
from recollect.runtime.sessions.text import SNIPPET_CHARACTERS
from recollect.runtime.sessions.transcripts import talk_of
from recollect.scope import Scope

if TYPE_CHECKING:
    from recollect.messages import Message
    from recollect.storage.records import Thread
    from recollect.storage.store import Store

_SCRIPTS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA", "HANGUL SYLLABLE")
_MOST_READ, _OF_ONE_SESSION = 5_000, 500  # messages of every role


def lone_signs(terms: Sequence[str]) -> tuple[str, ...]:
    """Return the terms if each of them is a single sign that is a word by itself, or nothing."""
    are_signs = all(len(term) == 1 and unicodedata.name(term, "").startswith(_SCRIPTS) for term in terms)
    return tuple(terms) if are_signs else ()


async def find_signs(
    signs: Sequence[str], sessions: Iterable["Thread"], store: "Store", user: Scope
) -> list[Hit]:
    """Return the messages that have the signs, those with most of them first, and then the newest."""
    found: list[Hit] = []
    left = _MOST_READ
    for session in sessions:
        if left <= 0:
            break
        read = await store.last_messages(min(left, _OF_ONE_SESSION), scope=user.with_thread(session.id))
        left -= len(read)
        found += [hit for message in reversed(talk_of(read)) if (hit := _hit(message, signs))]
    return sorted(found, key=lambda hit: -hit.relevance)


def _hit(message: "Message", signs: Sequence[str]) -> Hit | None:
    places = [place for sign in signs if (place := message.text.find(sign)) >= 0]
    if not places:
        return None
    share, half = len(places) / len(signs), SNIPPET_CHARACTERS // 2
    piece = (max(places[0] - half, 0), min(places[0] + half, len(message.text)))
    return Hit(message, share, share, piece)
