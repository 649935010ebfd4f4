"""What a search gives back: messages, and why each of them is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import overload

from recollect.messages import Message
from recollect.validation import as_json


@dataclass(frozen=True, slots=True)
class Why:
    """Why a message was found.

    `text_score` is BM25 over the user's own messages, `vector_score` the cosine to the question, each with
    its rank among all messages that were searched. `parts` are what the final score is the sum of.
    """

    text_score: float
    text_rank: int | None
    vector_score: float | None
    vector_rank: int | None
    parts: Mapping[str, float]
    matched_terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that a search found.

    `score` is what hits are ordered by and says nothing by itself. `relevance` is from 0 to 1: the larger of
    the cosine to the question and of the share of its words that the message has, rare words weighing more.
    `piece` is where in a long message the match is. `before` and `after` are its neighbours.
    """

    message: Message
    score: float
    relevance: float
    piece: tuple[int, int] | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    why: Why | None = None

    @property
    def text(self) -> str:
        """The text that matched: the message's, or of a long one the piece."""
        return self.message.text if self.piece is None else self.message.text[slice(*self.piece)]

    def to_dict(self, *, with_text: bool = True) -> dict[str, object]:
        """Return the hit as JSON; a log gets it without what people said."""
        said: dict[str, object] = {"text": self.text} if with_text else {}
        return said | {
            "id": self.message.id,
            "thread_id": self.message.thread_id,
            "role": self.message.role,
            "created_at": self.message.created_at.isoformat(),
            "piece": as_json(self.piece),
            "score": round(self.score, 6),
            "relevance": round(self.relevance, 6),
            "before": [message.id for message in self.before],
            "after": [message.id for message in self.after],
            "why": None if self.why is None else _why_dict(self.why, with_text=with_text),
        }


@dataclass(frozen=True, slots=True)
class Miss:
    """A message that was nearly shown, and what kept it out."""

    message_id: str
    score: float
    relevance: float
    reason: str


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The hits of a search, best first.

    `searched` is how many messages were looked at. `notes` say what was different from usual, such as an
    embedder that failed. `misses` and the hits' `why` are there if an explanation was asked for.
    """

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    notes: tuple[str, ...] = ()
    misses: tuple[Miss, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict[str, float])

    def __len__(self) -> int:
        """Count the hits."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """Go through the hits, best first."""
        return iter(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        """Return the hit at a place, 0 being the best."""
        return self.hits[place]

    @property
    def messages(self) -> list[Message]:
        """The messages that were found, best first."""
        return [hit.message for hit in self.hits]

    def to_dict(self, *, with_text: bool = True) -> dict[str, object]:
        """Return everything as JSON; a log gets it without what people said."""
        return {
            "searched": self.searched,
            "notes": list(self.notes),
            "timings": dict(self.timings),
            "hits": [hit.to_dict(with_text=with_text) for hit in self.hits],
            "misses": [asdict(miss) for miss in self.misses],
        }


def _why_dict(why: Why, *, with_text: bool) -> dict[str, object]:
    values = {name: as_json(value) for name, value in asdict(why).items()}
    if not with_text:
        del values["matched_terms"]
    return values
