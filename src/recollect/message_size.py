"""How much text a value, a part or a message holds: what decides whether work on it is done in a thread."""

from collections.abc import Mapping
from typing import cast

from recollect.messages import FilePart, Message, Part, ToolCall, ToolResult

QUICK_CHARACTERS = 4_000
"""How much text is worked on in the event loop's thread; what takes longer would hold up everybody."""

_NUMBER_SIZE = 8


def count_characters(value: object, limit: int = QUICK_CHARACTERS) -> int:
    """Return how much text a value holds, counted until it is more than a limit.

    A number is a short text. Each item of a list counts too, so that a list within itself comes to an end.
    """
    found = 0
    waiting = [value]
    while waiting and found <= limit:
        item = waiting.pop()
        if isinstance(item, Mapping):
            members = cast("Mapping[str, object]", item)
            found += len(members)
            waiting += (part for pair in members.items() for part in pair)
        elif isinstance(item, list | tuple):
            items = cast("list[object]", item)
            found += len(items)
            waiting += items
        else:
            found += len(item) if isinstance(item, str) else _NUMBER_SIZE
    return found


def count_message(message: Message) -> int:
    """Return how much text the parts of a message hold, counted until it is a lot."""
    return len(message.body) if isinstance(message.body, str) else sum(map(count_part, message.body))


def count_part(part: Part) -> int:
    """Return how much text a part holds, counted until it is a lot; what a file holds is not read."""
    match part:
        case ToolCall():
            return count_characters(part.arguments)
        case ToolResult():
            return count_characters(part.content)
        case FilePart():
            return len(part.url or "") + len(part.name or "")
        case _:
            return len(part.text)
