"""For tests of programs that use recollect: a scripted model and a clock that stands still.

Nothing else needs a fake: `open_store("sqlite://")` is a real store in memory.

    from datetime import UTC, datetime

    from recollect import Agent, Memory, open_store
    from recollect.testing import ScriptedClock, ScriptedModel

    async def test_the_agent_knows_the_name() -> None:
        clock = ScriptedClock(datetime(2030, 1, 1, tzinfo=UTC))
        model = ScriptedModel(["Hello Ada.", "You are Ada."])
        async with open_store("sqlite://", clock=clock) as store:
            agent = Agent(model, memory=Memory(store, user_id="ada"))
            await agent.generate("I am Ada.")
            clock.tick(3600)
            assert (await agent.generate("Who am I?")).text == "You are Ada."
        assert "I am Ada." in [message.text for message in model.shown[-1]]
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

from recollect.errors import InvalidArgumentError, ModelNotAskableError
from recollect.messages import Message, ToolCall
from recollect.validation import check_int, check_list

__all__ = ["Reply", "ScriptedClock", "ScriptedModel"]

Reply: TypeAlias = str | ToolCall | Sequence[str | ToolCall] | Callable[[Sequence[Message]], str] | Exception
"""One answer of a scripted model: text, tool calls, both, a function of the messages, or an error."""


class ScriptedModel:
    """Gives its replies in order, and repeats the last one.

    `answers` are for the questions of processors, such as working memory's, in the same way: JSON as text, a
    value, a function of the question, or an error. Without answers it cannot be asked, like the offline
    model. `chunk_size` is the number of characters of a chunk of text. `shown` has the messages of every
    request, `asked` every question.
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Reply,
        *,
        answers: Sequence[object] = (),
        chunk_size: int | None = None,
    ) -> None:
        """Take one reply or a list of them, and a list of answers to processors."""
        self._replies = _check_replies(replies)
        self._chunk_size = None if chunk_size is None else check_int(chunk_size, "chunk_size", minimum=1)
        self._answers = check_list(answers, "answers")
        self.shown: list[list[Message]] = []
        self.asked: list[str] = []

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Answer with the next reply."""
        reply = self._replies[min(len(self.shown), len(self._replies) - 1)]
        self.shown.append(list(messages))
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(messages)
        for part in [reply] if isinstance(reply, str | ToolCall) else reply:
            for chunk in self._cut(part) if isinstance(part, str) else [part]:
                yield chunk

    async def answer(self, prompt: str) -> object:
        """Answer a question of a processor with the next answer."""
        if not self._answers:
            raise ModelNotAskableError(
                "this ScriptedModel has no answers; give it ScriptedModel(…, answers=[…])"
            )
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(prompt)
        if isinstance(answer, Exception):
            raise answer
        return answer(prompt) if callable(answer) else answer

    def _cut(self, text: str) -> list[str]:
        size = self._chunk_size or max(len(text), 1)
        return [text[start : start + size] for start in range(0, len(text), size)]


class ScriptedClock:
    """A clock under the control of a test: `open_store(url, clock=ScriptedClock())`.

    It stands still until `tick` is called or `time` is set.
    """

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        """Start at a time, which must have a time zone."""
        self.time = start

    def __call__(self) -> datetime:
        """Return `time`."""
        return self.time

    def tick(self, seconds: float = 1) -> datetime:
        """Advance the clock and return the new time; a negative number goes back."""
        self.time += timedelta(seconds=seconds)
        return self.time


def _check_replies(replies: Iterable[Reply] | Reply) -> list[Reply]:
    if isinstance(replies, str | ToolCall | Exception) or callable(replies):
        return [replies]
    found = list(replies)
    if not found:
        raise InvalidArgumentError("replies", "must not be empty; for an empty answer use the reply ''")
    for reply in found:
        if not _is_reply(reply):
            raise InvalidArgumentError("replies", f"{reply!r:.60} is neither text nor a tool call")
    return found


def _is_reply(reply: object) -> bool:
    if isinstance(reply, Sequence) and not isinstance(reply, str):
        return all(isinstance(part, str | ToolCall) for part in cast("Sequence[object]", reply))
    return isinstance(reply, str | ToolCall | Exception) or callable(reply)
