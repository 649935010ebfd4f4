"""A bare Pydantic AI agent, as a peer, and a model that answers at once for it and for ours."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from recollect.agent.provider import to_model_messages
from recollect.messages import Message


def instant_model(chunks: Sequence[str]) -> FunctionModel:
    """Return a model that says the chunks one by one, or all at once where no stream is asked for."""

    async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("".join(chunks))])

    async def speak(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    return FunctionModel(answer, stream_function=speak)


def bare_turn(
    model: FunctionModel, prompt: str, history: Sequence[Message]
) -> Callable[[], Awaitable[object]]:
    """Return a function that runs a bare agent, which is handed the history in its own form."""
    agent = Agent(model)
    handed = to_model_messages(history, "", {})[: len(history)]  # it ends with an answer, not with a question
    return lambda: agent.run(prompt, message_history=handed)
