"""Updating working memory from a turn: the question to the model, and the patch in its answer."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from recollect.errors import InvalidArgumentError, ModelAnswerError, ModelError, RecollectError
from recollect.memory.fields import FieldSet, check_names
from recollect.messages import Message, clean_json
from recollect.pipeline.context import RunContext
from recollect.text.quoting import dump_json, fence_text, indent_lines
from recollect.tool_pairs import pair_calls
from recollect.working_memory import Strategy, apply_patch, is_blank

TOOL_NAME = "update_working_memory"
"""The tool by which a model changes working memory itself."""

Extraction: TypeAlias = Mapping[str, object] | Awaitable[Mapping[str, object]]
"""What an extractor function returns: the fields that change, None for a field to delete."""

ExtractorFunction: TypeAlias = Callable[[str, dict[str, object]], Extraction]
"""A function in place of a model: it takes the conversation and the current fields."""

_INSTRUCTIONS: dict[Strategy, str] = {
    "merge": "Answer with a JSON object of the fields that this turn changes, and only those.",
    "replace": "Answer with a JSON object of all fields as they are after this turn.",
}


def format_conversation(messages: Sequence[Message]) -> str:
    """Return what the user and the assistant said in a turn, without what memory or the system added."""
    spoken = {("user", "input"), ("assistant", "response")}
    said = [message for message in messages if (message.role, message.origin) in spoken and message.text]
    return "\n".join(f"{message.role}: {indent_lines(message.text)}" for message in said)


async def ask_model(
    fields: FieldSet,
    conversation: str,
    current: dict[str, object],
    ctx: RunContext,
    *,
    strategy: Strategy,
    model: object,
) -> dict[str, object]:
    """Ask a model what a turn changes; if the answer does not fit, ask once more and say why."""
    instruction = (
        f"{_INSTRUCTIONS[strategy]} Note only what was said, nothing that you guess. Use null for a field "
        "only if it was said that it no longer holds. If there is nothing to note, answer with {}."
    )
    prompt = "\n\n".join(
        (
            "You keep notes about a user up to date.",
            fields.describe(),
            fence_text("what is noted now, as JSON", dump_json(current)),
            fence_text("what was said in this turn", conversation),
            instruction,
        )
    )
    kind = _make_patch_type(fields)
    patch: dict[str, object] = {}
    try:
        patch = parse_patch(await ctx.ask(prompt, kind, model=model))
        problems = split_patch(fields, patch, current, strategy)[1]
    except (ModelAnswerError, InvalidArgumentError) as error:
        problems = [str(error)]
    if not problems:
        return patch
    ctx.trace.entry(ctx.processor_id, "commit").notes.append("the extraction was asked for again")
    retry = f"Your last answer cannot be used: {'; '.join(problems)}. Answer again, with all fields."
    answered = (
        [fence_text("your last answer, as JSON", json.dumps(patch, ensure_ascii=False))] if patch else []
    )
    try:
        return parse_patch(await ctx.ask("\n\n".join((prompt, *answered, retry)), kind, model=model))
    except (ModelError, InvalidArgumentError):
        if not patch:
            raise
        return patch  # some of its fields may be valid


def split_patch(
    fields: FieldSet, patch: Mapping[str, object], current: Mapping[str, object], strategy: Strategy
) -> tuple[dict[str, object], list[str]]:
    """Return the fields of a patch that can be stored, and what is wrong with the others."""
    valid: dict[str, object] = {}
    problems: list[str] = []
    for name, value in patch.items():
        try:
            apply_patch(current if strategy == "merge" else {}, {name: value}, "merge", fields.validate)
        except InvalidArgumentError as error:
            problems.append(error.problem)
        else:
            valid[name] = value
    return valid, problems


def _make_patch_type(fields: FieldSet) -> type[dict[str, object]]:
    """Return the type of an answer: the schema of the fields, none of them required, null where one ends."""
    schema = dict(fields.to_json_schema())
    schema.pop("required", None)
    properties = cast("Mapping[str, object]", schema["properties"])
    schema["properties"] = {
        name: {"anyOf": [field, {"type": "null"}]} if field else {} for name, field in properties.items()
    }
    return type("WorkingMemoryPatch", (dict,), {"json_schema": schema})


async def call_function(
    function: ExtractorFunction, conversation: str, current: dict[str, object]
) -> dict[str, object]:
    """Call an extractor function; one that is not async runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return parse_patch(await function(conversation, current))
    answer = await asyncio.to_thread(function, conversation, current)
    return parse_patch(await answer if inspect.isawaitable(answer) else answer)


def parse_patch(answer: object) -> dict[str, object]:
    """Check an extractor's answer and return it as a patch, without characters that cannot be stored."""
    if not isinstance(answer, Mapping):
        raise InvalidArgumentError("extractor", f"must return a dict of fields, not {type(answer).__name__}")
    patch = dict(cast("Mapping[str, object]", answer))
    try:
        json.dumps(patch, allow_nan=False)  # cleaning would make null of NaN, and null deletes
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            "extractor", f"returned a value that is not JSON ({type(error).__name__})"
        ) from None
    return cast("dict[str, object]", clean_json(patch))


def make_tool(fields: FieldSet) -> Callable[..., str]:
    """Return the tool by which a model changes working memory; the tool itself only checks the change.

    The commit takes the change from the turn, as the guards passed it, after the whole output chain.
    """

    def update_working_memory(changes: dict[str, Any]) -> str:
        # Objects are merged with the stored ones, and blanks change nothing: only the commit can check those.
        whole = {
            n: v for n, v in changes.items() if not isinstance(v, dict) and v is not None and not is_blank(v)
        }
        try:
            check_names(changes, fields.names)
            fields.validate(whole)
        except InvalidArgumentError as error:
            raise RecollectError(f"{error.problem}. Nothing was noted.") from None
        return "It will be noted at the end of this turn."

    description = " ".join(fields.describe().split())
    update_working_memory.__doc__ = (
        "Note what you learned about the user: only the fields that change, null for one that no longer "
        f"holds; what you do not mention stays. {description}"
    )
    return update_working_memory


def collect_tool_patches(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return the changes that the model made by the tool in a turn, without those that the tool rejected."""
    turn = [message for message in messages if message.origin == "response"]
    changes = [
        pair.call.arguments.get("changes")
        for pair in pair_calls(turn)
        if pair.call.name == TOOL_NAME and not pair.result.is_error
    ]
    return [cast("dict[str, object]", change) for change in changes if isinstance(change, dict)]
