"""Extractors for tests of working memory: what a model would note, by simple rules."""

import asyncio
import re

from pydantic_ai import messages as pa
from pydantic_ai.models.function import AgentInfo, FunctionModel

EMAIL = re.compile(r"email is (\S+)")
TOPIC = re.compile(r"about ([\w ]+)")


def note_email(conversation: str, current: dict[str, object]) -> dict[str, object]:
    """Note the last e-mail address that was named."""
    del current
    found = EMAIL.findall(conversation)
    return {"email": found[-1].rstrip(".")} if found else {}


def note_topic(conversation: str, current: dict[str, object]) -> dict[str, object]:
    """Note what the conversation is about."""
    del current
    found = TOPIC.search(conversation)
    return {"topic": found[1]} if found else {}


def note_all(conversation: str, current: dict[str, object]) -> dict[str, object]:
    """Note everything that was said."""
    del current
    return {"context": conversation}


class NotingModel:
    """A Pydantic AI model that notes what it is told to, and counts the requests."""

    def __init__(self, *answers: dict[str, object] | str) -> None:
        """Take the answers in order, the last one again and again; a text is said without the tool."""
        self._answers = answers
        self.prompts: list[str] = []
        self.model = FunctionModel(self._respond)

    def _respond(self, messages: list[pa.ModelMessage], info: AgentInfo) -> pa.ModelResponse:
        (prompt,) = (part for part in messages[0].parts if isinstance(part, pa.UserPromptPart))
        self.prompts.append(str(prompt.content))
        answer = self._answers[min(len(self.prompts), len(self._answers)) - 1]
        if isinstance(answer, str):
            return pa.ModelResponse(parts=[pa.TextPart(answer)])
        return pa.ModelResponse(parts=[pa.ToolCallPart(info.output_tools[0].name, answer)])


class Slow:
    """An extractor that waits until it is told to go on."""

    def __init__(self, answer: dict[str, object]) -> None:
        """Take the answer."""
        self._answer = answer
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def note(self, conversation: str, current: dict[str, object]) -> dict[str, object]:
        """Say that it was asked, wait, and answer."""
        del conversation, current
        self.asked.set()
        await self.go_on.wait()
        return self._answer
