"""What a search of sessions gives back: threads and messages of the store, and how they belong together."""

from dataclasses import dataclass

from recollect.messages import Message
from recollect.storage.records import Thread


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
    """Talk of one session in order; with a `tail` something between the two is left out."""

    session: Thread
    messages: tuple[Message, ...]
    tail: tuple[Message, ...] = ()
