"""Questions of processors to a model: one request, whose answer is a value of a type."""

import re
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import StructuredDict, exceptions
from pydantic_ai import messages as pa
from pydantic_ai.models import Model

from recollect.agent.models import AskableModel, LocalModel
from recollect.agent.result import Usage
from recollect.errors import ModelAnswerError, ModelError, ModelNotAskableError

T = TypeVar("T")

MODEL_FAULTS = (exceptions.AgentRunError, exceptions.UserError, AssertionError, RuntimeError)
"""What a model of Pydantic AI raises.

One that cannot stream fails with a bare assertion, an HTTP client of another event loop with a RuntimeError.
"""

_NOT_ASKED_FOR = "the model that a processor asked did not answer with what was asked for"
_FENCE = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)


async def ask_model(model: Model, prompt: str, output_type: type[T], usage: Usage) -> T:
    """Ask for a value; plain JSON is accepted too, from models that do not answer with the tool."""
    # No retries: only who asks knows what is wrong with an answer.
    agent = PydanticAgent(model, output_type=_describe_type(output_type), retries=0)
    said: list[pa.ModelResponse] = []
    try:
        async with agent.iter(prompt) as run:
            try:
                async for _ in run:
                    pass
            finally:
                said = [message for message in run.all_messages() if isinstance(message, pa.ModelResponse)]
                _count(said, usage)
            return cast("T", run.result.output if run.result is not None else None)
    except exceptions.UnexpectedModelBehavior as error:
        text = "".join(
            part.content for reply in said for part in reply.parts if isinstance(part, pa.TextPart)
        )
        if not text:
            raise ModelAnswerError(f"{_NOT_ASKED_FOR}: {error}") from error
        return read_answer(text, output_type)
    except MODEL_FAULTS as error:
        raise ModelError(f"the model that a processor asked failed: {error}") from error


async def ask_local_model(model: LocalModel, prompt: str, output_type: type[T], usage: Usage) -> T:
    """Ask a model in plain Python, if it answers questions."""
    if not isinstance(model, AskableModel):
        raise ModelNotAskableError(
            "local models, such as the offline one, cannot be asked for values; "
            "give the processor a model of its own"
        )
    answer = await model.answer(prompt)
    usage.requests += 1
    return read_answer(answer, output_type)


def read_answer(answer: object, output_type: type[T]) -> T:
    """Return a value of the type; text is read as JSON, also within a fence of Markdown."""
    kind = TypeAdapter[Any](dict[str, Any] if hasattr(output_type, "json_schema") else output_type)
    try:
        if not isinstance(answer, str) or output_type is str:
            return kind.validate_python(answer)
        fenced = _FENCE.fullmatch(answer)
        return kind.validate_json(fenced[1] if fenced else answer)
    except ValidationError as error:
        # Without the value: a trace or a log must not quote what people said.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the answer"
        raise ModelAnswerError(f"{_NOT_ASKED_FOR}: {place}: {first['msg']}") from None


def _describe_type(output_type: type[T]) -> Any:  # noqa: ANN401 - a type of Pydantic AI's
    schema = getattr(output_type, "json_schema", None)
    if not isinstance(schema, dict):
        return output_type
    try:
        described = StructuredDict(cast("dict[str, Any]", schema), name="fields")
        TypeAdapter(described).json_schema()
    except Exception:  # noqa: BLE001 - a schema that refers to itself cannot be sent; the prompt has it
        return dict[str, Any]
    return described


def _count(said: list[pa.ModelResponse], usage: Usage) -> None:
    for reply in said:
        usage.requests += 1
        usage.input_tokens += reply.usage.input_tokens
        usage.output_tokens += reply.usage.output_tokens
