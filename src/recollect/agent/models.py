"""The interface of local models, and the offline model."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from recollect.agent.result import Usage
from recollect.messages import Message, ToolCall, quoted_texts
from recollect.text.quoting import BULLET


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of one answer of the model."""

    usage: Usage
    finish_reason: str | None = None
    response: object = None


ModelPart: TypeAlias = str | ToolCall | StepEnd
"""A part of a model's answer: text in chunks, complete tool calls, and the end."""


@runtime_checkable
class LocalModel(Protocol):
    """A model in plain Python: it takes the messages and yields text and tool calls."""

    def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Answer the messages."""
        ...


@runtime_checkable
class AskableModel(LocalModel, Protocol):
    """A local model that also answers the questions of processors."""

    async def answer(self, prompt: str) -> object:
        """Return a value, or JSON as text."""
        ...


OFFLINE = "I am the offline model"
"""Begins every answer of the offline model."""

_MAX_QUOTES = 3


class OfflineModel:
    """Answers without a language model: it quotes what memory inserted, and says so."""

    async def respond(self, messages: Sequence[Message]) -> AsyncIterator[str | ToolCall]:
        """Quote the remembered texts that share the most words with the question."""
        found = find_quotes(messages)
        yield f"{OFFLINE}: I only quote memory."
        if not found:
            yield " It holds nothing about this yet."
        for quote in found:
            yield f"\n- {quote}"


def find_quotes(messages: Sequence[Message]) -> list[str]:
    """Return the remembered texts that share the most words with the last message, in their order."""
    from recollect.text.terms import question_terms_of, terms_of

    question = set(question_terms_of(messages[-1].text)) if messages else set[str]()
    scored = [
        (len(question & set(terms_of(text))), (place, line), quote)
        for place, message in enumerate(messages)
        for line, (text, quote) in enumerate(_read_remembered(message))
    ]
    # Of equal scores, later messages win; within one message of recalled lines, the first: it fits best.
    best = sorted((item for item in scored if item[0]), key=lambda item: (-item[0], -item[1][0], item[1][1]))
    return [quote for _, _, quote in sorted(best[:_MAX_QUOTES], key=lambda item: item[1])]


def _read_remembered(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the remembered texts of a message, each as (text to compare, text to say)."""
    if message.origin == "memory" and message.role != "system":
        if not message.text.startswith(OFFLINE):  # its own answers quote memory already
            yield message.text, f"{message.role} said: {message.text}"
    elif message.kind == "snapshot":
        for note in quoted_texts(message):
            yield note, f"noted: {note.removeprefix(BULLET)}"
    elif message.origin == "memory":
        lines = (line for text in quoted_texts(message) for line in text.splitlines())
        yield from ((line, line.strip().removeprefix(BULLET)) for line in lines)
