"""Runs a long-term memory backend as a processor, after the guards on both sides."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from recollect.backends.base import (
    CompletedRun,
    MemoryBackend,
    RecalledItem,
    Recollection,
    StartedRun,
    get_owner,
)
from recollect.concurrency.tasks import BackgroundTasks
from recollect.errors import RecollectError, WrongOwnerError, combine_errors
from recollect.messages import Message, frame_parts, is_aborted, now
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor
from recollect.pipeline.prompt_order import insert
from recollect.text.quoting import BULLET, fence, quote, quote_inline

if TYPE_CHECKING:
    from datetime import datetime

LABEL = "recalled from the memory gateway"
"""The label of the block of recalled items in the prompt."""

MAX_ITEM_CHARACTERS = 2_000
"""How many characters of one item's text the model sees."""

MAX_TOTAL_CHARACTERS = 24_000
"""How many characters of all items together the model sees; the last items are dropped first."""

MAX_ITEMS = 100
"""How many items the model sees."""

MAX_SOURCE_CHARACTERS = 200
"""How many characters of an item's source the model sees."""

_ASKED_AT = "asked_at"


class BackendProcessor(Processor):
    """Recalls before the model call, and persists after the whole turn has passed the guards.

    If the backend fails, the run continues; the trace and the log name the error.
    """

    id = "long-term-memory"
    observes: ClassVar[bool] = True

    def __init__(self, backend: MemoryBackend, *, in_background: bool = False) -> None:
        """With `in_background` the answer is returned before the backend has persisted the turn."""
        self._backend = backend
        self._background = BackgroundTasks()
        self._persists_in_background = in_background

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the backend's tools."""
        return self._backend.get_tools()

    async def wait_until_idle(self) -> None:
        """Wait for all background persistence to finish."""
        await self._background.join()

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert the snapshot and the recalled items before the conversation."""
        ctx.state[_ASKED_AT] = now()
        prompt = _find_prompt(messages)
        if not prompt:
            return messages
        run = StartedRun(ctx.ids.thread_id or "", ctx.run_id, prompt, get_owner(ctx.ids))
        try:
            found = await self._backend.recall_before_run(run)
        except Exception as error:  # noqa: BLE001 - a backend may raise anything, and the chat goes on
            ctx.degrade(_sanitize_error(self._backend, error))
            return messages
        if found.problems:
            ctx.degrade(combine_errors(found.problems))
        for message in _make_messages(found, ctx):
            messages = insert(messages, [message])
        return messages

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage the turn for the backend, unless it was aborted."""
        if not is_aborted(messages):
            asked_at: datetime = ctx.state.get(_ASKED_AT) or now()
            run = CompletedRun(
                ctx.ids.thread_id or "",
                ctx.run_id,
                _find_prompt(messages),
                _find_answer(messages),
                asked_at,
                now(),
                tuple(messages),
                get_owner(ctx.ids),
            )
            ctx.on_commit(partial(self._commit, run, ctx))
        return messages

    async def _commit(self, run: CompletedRun, ctx: RunContext) -> object:
        if not self._persists_in_background:
            return await self._persist(run)
        self._background.start(run.session_id, self._persist_in_background(run, ctx))
        return True

    async def _persist(self, run: CompletedRun) -> object:
        try:
            return await self._backend.persist_after_run(run)
        except Exception as error:
            sanitized = _sanitize_error(self._backend, error)
            if sanitized is error:
                raise
            raise sanitized from None

    async def _persist_in_background(self, run: CompletedRun, ctx: RunContext) -> None:
        try:
            await self._persist(run)
        except RecollectError as error:
            # After the answer there is no caller left who could catch it.
            ctx.degrade(RecollectError(str(error)) if isinstance(error, WrongOwnerError) else error)


def _find_prompt(messages: Sequence[Message]) -> str:
    """Return the last text that the user wrote in this run."""
    texts = [m.text for m in messages if m.role == "user" and m.origin == "input" and m.text]
    return texts[-1] if texts else ""


def _find_answer(messages: Sequence[Message]) -> str:
    """Return the text of the last step; what was said before a tool call is no answer."""
    last = next((m for m in reversed(messages) if m.origin == "response"), None)
    return last.text if last is not None and last.role == "assistant" and not last.tool_calls else ""


def _make_messages(found: Recollection, ctx: RunContext) -> list[Message]:
    made: list[Message] = []
    if snapshot := found.snapshot_parts():
        made.append(
            Message("system", snapshot, id=f"{ctx.run_id}:snapshot", origin="system", kind="snapshot")
        )
    shown = quote_items(found.items)
    if shown:
        content = frame_parts(fence(LABEL, shown.values()))
        made.append(Message("system", content, id=f"{ctx.run_id}:recalled", origin="memory", kind="recalled"))
    facts: dict[str, object] = {"snapshot_characters": len(found.snapshot), "recalled": len(found.items)}
    sources = [_describe_source(found.items[place]) for place in shown]
    ctx.set_details(facts | ({"items": sources} if sources else {}))
    return made


def quote_items(items: Sequence[RecalledItem]) -> dict[int, str]:
    """Return the quoted items by their index, as many as fit; items without text are left out."""
    shown: dict[int, str] = {}
    left = MAX_TOTAL_CHARACTERS
    for place, item in enumerate(items[:MAX_ITEMS]):
        line = _quote_item(item)
        left -= len(line)
        if left < 0:
            break
        if line:
            shown[place] = line
    return shown


def _quote_item(item: RecalledItem) -> str:
    text = quote(item.text, MAX_ITEM_CHARACTERS)
    source = quote_inline(
        item.resource_uri or item.session_id or item.source_scope or "", MAX_SOURCE_CHARACTERS
    )
    if not text:
        return ""
    return f"{BULLET}({source}) {text}" if source else f"{BULLET}{text}"


def _describe_source(item: RecalledItem) -> dict[str, object]:
    """Return an item's source and score for the trace, without its text."""
    names = {
        "source_scope": item.source_scope,
        "session_id": item.session_id,
        "resource_uri": item.resource_uri,
        "id": item.id,
    }
    facts: dict[str, object] = {} if item.score is None else {"score": item.score}
    return facts | {key: quote_inline(name, MAX_SOURCE_CHARACTERS) for key, name in names.items() if name}


def _sanitize_error(backend: MemoryBackend, error: Exception) -> RecollectError:
    """Return an error that is safe to show: a foreign one may quote anything, so only its type is named."""
    if isinstance(error, RecollectError):
        return error
    return RecollectError(f"{backend.name} failed: {type(error).__name__}")
