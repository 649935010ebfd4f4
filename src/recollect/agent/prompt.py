"""Parses the prompt of a run into messages, and remembers what each agent's model was last shown.

One `ContextVar` serves all agents, because a context never drops one. Its value is replaced, never changed,
because tasks share it with the tasks that they start.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from recollect.errors import InvalidArgumentError
from recollect.messages import FilePart, Message
from recollect.tool_pairs import pair_calls
from recollect.validation import check_id, check_text

Prompt: TypeAlias = str | Message | Sequence[Message | Mapping[str, object]]
"""The prompt of a run: text, a message, or a list of messages (also as dicts with role and content)."""

_FIELDS = {"role", "content", "id", "metadata", "created_at"}
_MAX_RUN_ID_BYTES = 400  # message ids add a suffix to it


def check_run_id(run_id: str) -> str:
    """Check a run id; message ids begin with it, so that it must be shorter than other ids."""
    check_text(run_id, "run_id", max_bytes=_MAX_RUN_ID_BYTES)
    return check_id(run_id, "run_id")


def parse_prompt(prompt: object, run_id: str) -> list[Message]:
    """Return a prompt as messages; the last of them is the one to answer."""
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    elif isinstance(prompt, Message):
        prompt = [prompt]
    if not isinstance(prompt, Sequence):
        raise InvalidArgumentError("prompt", f"must be text, a message or a list of them, not {prompt!r:.60}")
    items = cast("Sequence[object]", prompt)
    messages = [_to_message(item, f"{run_id}:prompt.{place:04d}") for place, item in enumerate(items)]
    _check_end(messages)
    _check_ids(messages, run_id)
    return messages


def _to_message(item: object, made_id: str) -> Message:
    if isinstance(item, Message):
        return item.replace(origin="input", kind=None)
    if not isinstance(item, Mapping):
        raise InvalidArgumentError("prompt", f"holds a {type(item).__name__}; use Message values or dicts")
    values: dict[object, Any] = dict(cast("Mapping[object, Any]", item))
    if unknown := values.keys() - _FIELDS:
        raise InvalidArgumentError("prompt", f"{min(map(repr, unknown)):.60} is not a field of a message")
    if "role" not in values:
        raise InvalidArgumentError("prompt", "holds a dict without 'role'")
    made: dict[str, Any] = {"id": made_id, "origin": "input"}
    return Message(**(made | cast("dict[str, Any]", values)))


def _check_end(messages: Sequence[Message]) -> None:
    """Raise unless the prompt ends with text or a file of the user, or with a tool result."""
    conversation = [message for message in messages if message.role != "system"]
    if not any(message.parts for message in conversation):
        raise InvalidArgumentError("prompt", "must not be empty")
    last = conversation[-1]
    if last.role == "tool":
        _check_results(conversation)
    elif last.role == "assistant":
        raise InvalidArgumentError("prompt", "ends with an assistant message; add the message to answer")
    elif _is_blank(last.text) and not any(isinstance(part, FilePart) for part in last.parts):
        raise InvalidArgumentError("prompt", "must not be empty: its last message says nothing")


def _is_blank(text: str) -> bool:
    return not text or text.isspace()  # `strip` would copy a long text


def _check_results(conversation: Sequence[Message]) -> None:
    answers = [pair.result for pair in pair_calls(conversation) if pair.result_index == len(conversation) - 1]
    if not answers or len(answers) != len(conversation[-1].tool_results):
        raise InvalidArgumentError("prompt", "ends with a tool's message whose call is not in the prompt")


def _check_ids(messages: Sequence[Message], run_id: str) -> None:
    if len({message.id for message in messages}) != len(messages):
        raise InvalidArgumentError("prompt", "two of its messages have the same id")
    for message in messages:
        if message.id.startswith(f"{run_id}:") and not message.id.startswith(f"{run_id}:prompt."):
            raise InvalidArgumentError(
                "prompt",
                f"the id {message.id!r:.60} is reserved for the answer of this run; choose another",
            )


_shown: ContextVar[WeakKeyDictionary[object, list[Message]] | None] = ContextVar(
    "recollect_shown", default=None
)


def note_shown(agent: object, messages: list[Message]) -> None:
    """Remember what an agent's model was shown; no messages change nothing."""
    earlier = _shown.get()
    if not messages or (earlier is not None and earlier.get(agent) is messages):
        return
    known: WeakKeyDictionary[object, list[Message]] = WeakKeyDictionary(earlier or {})
    known[agent] = messages
    _shown.set(known)


def get_last_shown(agent: object) -> list[Message]:
    """Return what an agent's model was last shown in this task."""
    return list((_shown.get() or {}).get(agent, []))
