"""What the agent asks of a model, and the models that need no provider."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from recollect.agent.result import Usage
from recollect.messages import Message, ToolCall


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of one answer of the model."""

    usage: Usage
    finish_reason: str | None = None
    response: object = None


ModelPart: TypeAlias = str | ToolCall | StepEnd
"""What a model gives: text in pieces, complete tool calls, and the end."""


@runtime_checkable
class LocalModel(Protocol):
    """A model in plain Python: it is shown the messages and yields text and tool calls."""

    def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Answer the messages."""
        ...


OFFLINE = "I am the offline model"
"""How everything begins that the offline model says."""


class OfflineModel:
    """Answers without any model, by quoting what memory brought in, and says so."""

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Quote the remembered messages that share the most words with the question."""
        quotes = self.quotes(messages)
        yield f"{OFFLINE}: I only quote memory."
        if not quotes:
            yield " It holds nothing about this yet."
        for quote in quotes:
            yield f"\n- {quote.role} said: {quote.text}"

    def quotes(self, messages: Sequence[Message]) -> list[Message]:
        """Return the remembered messages that share the most words with the last one."""
        return _quotes(messages)


def _quotes(messages: Sequence[Message], most: int = 3) -> list[Message]:
    from recollect.recall.analyser import terms_of

    question = set(terms_of(messages[-1].text)) if messages else set[str]()
    scored = [
        (len(question & set(terms_of(message.text))), place, message)
        for place, message in enumerate(messages)
        # Its own words, which quote memory themselves, are not worth quoting.
        if message.origin == "memory" and message.text and not message.text.startswith(OFFLINE)
    ]
    best = sorted((item for item in scored if item[0]), key=lambda item: (-item[0], -item[1]))[:most]
    return [message for _, _, message in sorted(best, key=lambda item: item[1])]
