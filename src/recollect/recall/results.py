"""The results of a search: messages, and why each was found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import overload

from recollect.messages import Message
from recollect.validation import as_json


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for the background work of search; counts of messages stop at 10,000.

    `words` counts the user's messages whose terms are not stored yet: a search analyses them itself.
    `vectors` counts those that search knows by their words alone. `users` is how many users wait in this
    process.
    """

    words: int
    vectors: int
    users: int


@dataclass(frozen=True, slots=True)
class Why:
    """Why a message was found.

    `text_score` is BM25 over the user's own messages, `vector_score` the cosine similarity to the question,
    each with its rank among the searched messages. The values of `parts` add up to the final score.
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

    Hits are ordered by `score`, which means nothing by itself. `relevance` is from 0 to 1: the larger of the
    cosine similarity and the share of the question's words in the message, with rare words weighing more.
    `segment` is the place (start, end) of the match in a long message. `before` and `after` are the
    neighbouring messages: context, which need not match the question or pass the filters.
    """

    message: Message
    score: float
    relevance: float
    segment: tuple[int, int] | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    why: Why | None = None

    @property
    def text(self) -> str:
        """The matching text: the whole message, or the segment of a long one."""
        return self.message.text if self.segment is None else self.message.text[slice(*self.segment)]

    def to_dict(self, *, with_text: bool = True) -> dict[str, object]:
        """Return the hit as JSON; a log gets it without what people said."""
        said: dict[str, object] = {"text": self.text} if with_text else {}
        return said | {
            **_name(self.message),
            "thread_id": self.message.thread_id,
            "segment": as_json(self.segment),
            "score": round(self.score, 6),
            "relevance": round(self.relevance, 6),
            "before": [_context_to_dict(message, with_text=with_text) for message in self.before],
            "after": [_context_to_dict(message, with_text=with_text) for message in self.after],
            "why": None if self.why is None else _why_to_dict(self.why, with_text=with_text),
        }


@dataclass(frozen=True, slots=True)
class Miss:
    """A message that was nearly shown, and the reason why it was not."""

    message_id: str
    score: float
    relevance: float
    reason: str


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The hits of a search, best first.

    `searched` is the number of searched messages. `notes` name anything unusual, such as an embedder that
    failed. `misses` and the hits' `why` are set if the caller asked for an explanation.
    """

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    notes: tuple[str, ...] = ()
    misses: tuple[Miss, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict[str, float])

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    @property
    def messages(self) -> list[Message]:
        """The messages of the hits, best first."""
        return [hit.message for hit in self.hits]

    def to_dict(self, *, with_text: bool = True) -> dict[str, object]:
        """Return everything as JSON values; without text it is fit for a log."""
        return {
            "searched": self.searched,
            "notes": list(self.notes),
            "timings": dict(self.timings),
            "hits": [hit.to_dict(with_text=with_text) for hit in self.hits],
            "misses": [asdict(miss) for miss in self.misses],
        }


def _context_to_dict(message: Message, *, with_text: bool) -> dict[str, object]:
    return {**_name(message), "is_context": True} | ({"text": message.text} if with_text else {})


def _name(message: Message) -> dict[str, object]:
    return {"id": message.id, "role": message.role, "created_at": message.created_at.isoformat()}


def _why_to_dict(why: Why, *, with_text: bool) -> dict[str, object]:
    values = {name: as_json(value) for name, value in asdict(why).items()}
    if not with_text:
        del values["matched_terms"]
    return values
