"""Reference results for the index and the ranking, computed slowly and plainly."""

import math
from collections import Counter
from collections.abc import Sequence

from tests.recall.rows import SampleMessage

from recollect.text.terms import terms_of


def counts(message: SampleMessage) -> Counter[str]:
    """Count the terms of a message."""
    return Counter(terms_of(" ".join(message.words)))


def bm25(said: Sequence[SampleMessage], terms: Sequence[str]) -> list[float]:
    """Return the BM25 score of every message, with the formula written out."""
    bags = [counts(message) for message in said]
    lengths = [bag.total() for bag in bags]
    average = max(sum(lengths) / len(lengths), 1e-6) if lengths else 1.0
    scores = [0.0] * len(said)
    for term in terms:
        having = sum(term in bag for bag in bags)
        rarity = math.log(1 + (len(said) - having + 0.5) / (having + 0.5))
        for place, bag in enumerate(bags):
            if term in bag:
                norm = 1.2 * (0.25 + 0.75 * lengths[place] / average)
                scores[place] += rarity * bag[term] * 2.2 / (bag[term] + norm)
    return scores


def rarities(said: Sequence[SampleMessage], terms: Sequence[str]) -> list[float]:
    """Return how rare each term is."""
    bags = [counts(message) for message in said]
    having = [sum(term in bag for bag in bags) for term in terms]
    return [math.log(1 + (len(said) - n + 0.5) / (n + 0.5)) for n in having]


def coverage(said: Sequence[SampleMessage], terms: Sequence[str]) -> list[float]:
    """Return the share of a question's words that each message has, rare ones weighing more."""
    weights = rarities(said, terms)
    total = max(sum(weights), 1e-6)
    return [
        sum(weight for term, weight in zip(terms, weights, strict=True) if term in counts(message)) / total
        for message in said
    ]


def relevance(said: Sequence[SampleMessage], terms: Sequence[str]) -> list[float]:
    """Return the relevance of each message by words alone; the eight rarest are enough."""
    weights = dict(zip(terms, rarities(said, terms), strict=True))
    enough = max(sum(sorted(weights.values())[-8:]), 1e-6)
    found: list[float] = []
    for row, around in enumerate(find_nearby(said)):
        own, near = (
            sum(weight for term, weight in weights.items() if any(term in counts(said[n]) for n in rows))
            for rows in ({row}, around)
        )
        found.append(min(1.0, max(own, near / 2) / enough))
    return found


def cosine(message: SampleMessage, vector: Sequence[float]) -> float:
    """Return the dot product of a message's first segment with a vector, or NaN."""
    return (
        sum(a * b for a, b in zip(message.segments[0], vector, strict=True)) if message.segments else math.nan
    )


def neighbours(said: Sequence[SampleMessage]) -> list[tuple[int, int]]:
    """Return the places before and after each message in its thread, or -1."""
    found: list[tuple[int, int]] = []
    for place, message in enumerate(said):
        before = [n for n in range(place) if said[n].thread == message.thread]
        after = [n for n in range(place + 1, len(said)) if said[n].thread == message.thread]
        found.append((before[-1] if before else -1, after[0] if after else -1))
    return found


def find_nearby(said: Sequence[SampleMessage]) -> list[set[int]]:
    """Return the places of each message and of the two before and after it in its thread."""
    links = neighbours(said)
    found: list[set[int]] = []
    for place, (before, after) in enumerate(links):
        around = {place, before, after}
        around |= {links[before][0]} if before >= 0 else set()
        around |= {links[after][1]} if after >= 0 else set()
        found.append(around - {-1})
    return found
