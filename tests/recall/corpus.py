"""A generated memory of one user: 300 messages in several threads, always the same."""

import random
from datetime import UTC, datetime, timedelta

from recollect import Message

_WHO = ("Ann", "Bob", "Cleo", None)
_DID = ("bought", "lost", "painted", "repaired", "sold", "wrote about", "dreamt of", "photographed")
_WHAT = (
    "a cello",
    "the old boat",
    "a recipe for soup",
    "her bicycle",
    "a garden shed",
    "the cat",
    "a map of Porto",
)
_WHERE = ("in Lisbon", "at work", "near the lake", "in the attic", "on the train", "at school")
_WHEN = ("yesterday", "last week", "in March", "on Sunday", "two years ago", "")
_ASIDES = (
    "Really?",
    "That sounds lovely!",
    "Why was that?",
    "Good for you.",
    "\U0001f600",
    "你好\uff0c我们明天见。",
)

QUESTIONS = (
    "Who bought a cello?",
    "What did Ann paint in the attic?",
    "When was the old boat sold?",
    "What happened last week at school?",
    "Bob's bicycle",
    "Did anybody write about the cat near the lake in March?",
    "musical instruments",
    "vehicles and travel",
    "明天见",
    "a recipe, a map and a shed",
    "Is there anything about xylophones?",
)


def threads() -> dict[str, list[Message]]:
    """Return the messages by thread."""
    rng = random.Random(4)
    start = datetime(2024, 1, 1, 8, tzinfo=UTC)
    found: dict[str, list[Message]] = {}
    for number in range(300):
        name = rng.choice(_WHO)
        text = f"I {rng.choice(_DID)} {rng.choice(_WHAT)} {rng.choice(_WHERE)} {rng.choice(_WHEN)}.".replace(
            " .", "."
        )
        if number % 7 == 0:
            text = rng.choice(_ASIDES)
        if number % 75 == 0:
            text = " ".join(f"On day {n} {text}" for n in range(25))
        message = Message(
            "assistant" if number % 3 == 0 else "user",
            text,
            id=f"m{number}",
            metadata={} if name is None else {"name": name},
            created_at=start + timedelta(hours=5 * number),
        )
        found.setdefault(f"thread {number // 20 % 6}", []).append(message)
    return found
