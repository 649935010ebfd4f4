"""What a model is asked, so that a working memory learns from a turn, and what is made of its answer."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from recollect.errors import InvalidArgumentError, RecollectError
from recollect.memory.fields import Shape, check_names
from recollect.messages import ABORTED, Message, clean_json
from recollect.pipeline.context import RunContext
from recollect.text.quoting import fence_text, indent_lines
from recollect.tool_pairs import pair_calls
from recollect.working_memory import Strategy, is_blank

TOOL_NAME = "update_working_memory"
"""The tool by which a model changes working memory itself."""

Extraction: TypeAlias = Mapping[str, object] | Awaitable[Mapping[str, object]]
"""What a function that extracts gives back: the fields that change, None for one that is to go."""

ExtractorFunction: TypeAlias = Callable[[str, dict[str, object]], Extraction]
"""A function in the place of a model: it is given the talk and the present fields."""

_ORDERS: dict[Strategy, str] = {
    "merge": "Answer with a JSON object of the fields that this turn changes, and only those.",
    "replace": "Answer with a JSON object of all fields as they are after this turn.",
}


def talk_of(messages: Sequence[Message]) -> str:
    """Return what the user and the assistant said in a turn; never what memory or the system put in.

    An answer that was broken off is nothing to learn from.
    """
    if any(message.metadata.get(ABORTED) for message in messages):
        return ""
    spoken = {("user", "input"), ("assistant", "response")}
    said = [message for message in messages if (message.role, message.origin) in spoken and message.text]
    return "\n".join(f"{message.role}: {indent_lines(message.text)}" for message in said)


async def ask_model(
    shape: Shape,
    talk: str,
    current: dict[str, object],
    ctx: RunContext,
    *,
    strategy: Strategy,
    model: object,
) -> dict[str, object]:
    """Ask a model, once, what a turn changes."""
    order = (
        f"{_ORDERS[strategy]} Note only what was said, nothing that you guess. Use null for a field only "
        "if it was said that it no longer holds. If there is nothing to note, answer with {}."
    )
    prompt = "\n\n".join(
        (
            "You keep notes about a user up to date.",
            shape.describe(),
            fence_text("what is noted now, as JSON", json.dumps(current, ensure_ascii=False)),
            fence_text("what was said in this turn", talk),
            order,
        )
    )
    kind = cast("type[dict[str, object]]", dict[str, Any])
    return checked_patch(await ctx.ask(prompt, kind, model=model))


async def call_function(
    function: ExtractorFunction, talk: str, current: dict[str, object]
) -> dict[str, object]:
    """Call a function that extracts; one that is not async runs beside the event loop."""
    if inspect.iscoroutinefunction(function):
        return checked_patch(await function(talk, current))
    answer = await asyncio.to_thread(function, talk, current)
    return checked_patch(await answer if inspect.isawaitable(answer) else answer)


def checked_patch(answer: object) -> dict[str, object]:
    """Return an answer as a change of fields, cleaned of what cannot be stored."""
    if not isinstance(answer, Mapping):
        raise InvalidArgumentError("extractor", f"must give a dict of fields, not {type(answer).__name__}")
    patch = dict(cast("Mapping[str, object]", answer))
    try:
        json.dumps(patch, allow_nan=False)  # cleaning would make null of NaN, and null deletes
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            "extractor", f"gave something that is not JSON ({type(error).__name__})"
        ) from None
    return cast("dict[str, object]", clean_json(patch))


def make_tool(shape: Shape) -> Callable[..., str]:
    """Return the tool by which a model changes working memory; it only looks whether the change fits.

    The change itself is taken from the turn, as it left the guards, once the whole chain has passed.
    """

    def update_working_memory(changes: dict[str, Any]) -> str:
        # Objects are merged into what is there, and blanks say nothing: only the commit can judge those.
        whole = {
            n: v for n, v in changes.items() if not isinstance(v, dict) and v is not None and not is_blank(v)
        }
        try:
            check_names(changes, shape.fields)
            shape.checked(whole)
        except InvalidArgumentError as error:
            raise RecollectError(f"{error.problem}. Nothing was noted.") from None
        return "It will be noted at the end of this turn."

    described = " ".join(shape.describe().split())
    update_working_memory.__doc__ = (
        "Note what you learned about the user: only the fields that change, null for one that no longer "
        f"holds; what you do not mention stays. {described}"
    )
    return update_working_memory


def tool_patches(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return the changes that the model made by the tool in a turn, without those that the tool refused."""
    turn = [message for message in messages if message.origin == "response"]
    changes = [
        pair.call.arguments.get("changes")
        for pair in pair_calls(turn)
        if pair.call.name == TOOL_NAME and not pair.result.is_error
    ]
    return [cast("dict[str, object]", change) for change in changes if isinstance(change, dict)]
