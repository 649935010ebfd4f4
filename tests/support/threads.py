"""A stored thread for tests of message history, and what the processor makes of a prompt in it."""

from tests.support.agents import ADA
from tests.support.contexts import context, new_run

from recollect import Message, MessageHistoryProcessor, Scope, ToolCall, ToolResult

THREAD = Scope(None, "ada", "t1")
"""The scope of a run with the ids `ADA`."""

PROMPT = Message("user", "and now?", id="prompt")


def conversation(count: int) -> list[Message]:
    """Return messages of user and assistant in turn."""
    return [
        Message("assistant" if index % 2 else "user", f"message {index}", id=f"m{index}")
        for index in range(count)
    ]


def tool_round(name: str = "c1") -> list[Message]:
    """Return a question, a tool call, its result, and the answer."""
    return [
        Message("user", "what is 2+2?", id=f"{name}-question"),
        Message("assistant", [ToolCall(name, "add", {"a": 2, "b": 2})], id=f"{name}-call"),
        Message("tool", [ToolResult(name, "add", 4)], id=f"{name}-result"),
        Message("assistant", "It is 4.", id=f"{name}-answer"),
    ]


async def show_prompt(processor: MessageHistoryProcessor, *prompt: Message) -> list[Message]:
    """Return the view that the processor makes of a prompt."""
    return await processor.process_input(list(prompt), context(new_run(**ADA)))
