"""The order of the prompt; this file alone decides it.

An agent with a `Memory`: instructions, working memory, user memory, other threads, the caller's own system
messages, history, recalled messages, this turn. What changes least comes first, because providers cache the
beginning of a prompt: with recalled messages before the history, nearly nothing of the last turn's prompt
would be the same. Each processor of memory adds its messages by `insert`, in whatever order they run.

The runtime's agent: instructions, snapshot, skills, recalled memory, history, this turn. `ContextBuilder`
puts them in that order.
"""

from collections.abc import Sequence
from typing import ClassVar

from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor


def insert(messages: Sequence[Message], brought: Sequence[Message]) -> list[Message]:
    """Return a prompt with messages of memory, all of one kind, inserted where that kind belongs."""
    if not brought:
        return [*messages]
    place = _find_index(_KINDS[brought[0].kind], messages)
    return [*messages[:place], *brought, *messages[place:]]


_KINDS: dict[str | None, int] = {
    "snapshot": 0,
    "skill": 1,
    "working_memory": 2,
    "user_memory": 3,
    "other_threads": 4,
    None: 5,  # history
    "recalled": 6,
}
"""The order of what memory brings, by kind."""


def _find_index(rank: int, messages: Sequence[Message]) -> int:
    if rank == _KINDS["recalled"]:  # a history that the caller sends comes before it too
        return find_turn_start(messages)
    return next((place for place, m in enumerate(messages) if _is_after(m, rank)), len(messages))


def _is_after(message: Message, rank: int) -> bool:
    if message.origin == "memory":
        return _KINDS[message.kind] > rank
    return message.role != "system" or rank < _KINDS[None]


class ContextBuilder(Processor):
    """Orders the prompt of the runtime's agent; it adds and removes nothing."""

    id = "context-builder"
    edits = "view"
    observes: ClassVar[bool] = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Order the view; the stored turn does not change."""
        return self.build_messages(messages)

    @staticmethod
    def build_messages(messages: Sequence[Message]) -> list[Message]:
        """Return messages in order; those of one kind keep their order."""
        return sorted(messages, key=_rank)


def _rank(message: Message) -> int:
    if message.origin in ("input", "response"):
        return 4
    if message.role != "system":
        return 3
    if message.origin == "memory":
        return 2
    return 1 if message.kind == "skill" else 0


def find_turn_start(messages: Sequence[Message]) -> int:
    """Return the index of the first message of the current turn.

    A caller may send a whole history as the prompt. The turn is the user's last message, or several in a row,
    and all after it. A prompt without a user message is all one turn.
    """
    places = [place for place, message in enumerate(messages) if message.origin == "input"]
    spoken = [place for place in places if messages[place].role == "user"]
    if not spoken:
        return places[0] if places else len(messages)
    start = spoken[-1]
    while start - 1 in spoken:
        start -= 1
    return start
