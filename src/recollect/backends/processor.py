"""The place of a long-term memory in the pipeline: after the guards on both sides."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from recollect.backends.base import CompletedRun, MemoryBackend, RecalledItem, Recollection, StartedRun
from recollect.concurrency.tasks import BackgroundTasks
from recollect.errors import RecollectError, WrongOwnerError, reported
from recollect.messages import ABORTED, Message, frame_parts, now
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor
from recollect.pipeline.prompt_order import insert
from recollect.text.quoting import BULLET, fence, quote, quote_inline

if TYPE_CHECKING:
    from datetime import datetime

LABEL = "recalled from the memory gateway"
"""What the block of recalled items is called in the prompt."""

MOST_CHARACTERS = 2_000
"""How much of one item's text the model is shown."""

MOST_IN_ALL = 24_000
"""How much of all items together the model is shown; what is beyond is left out, the last first."""

MOST_ITEMS = 100
"""How many items the model is shown."""

LONGEST_SOURCE = 200
"""How much the model is shown of where an item comes from."""

_ASKED_AT = "asked_at"


class BackendProcessor(Processor):
    """Recalls before the model is asked, and persists once the whole turn has passed.

    Whatever goes wrong in the backend, the run goes on: the trace and the log say what it was.
    """

    id = "long-term-memory"
    observes: ClassVar[bool] = True

    def __init__(self, backend: MemoryBackend, *, in_background: bool = False) -> None:
        """Stand for a backend; with `in_background` the answer does not wait until it has persisted."""
        self._backend = backend
        self._background = BackgroundTasks()
        self._persists_in_background = in_background

    def get_tools(self) -> Sequence[Callable[..., object]]:
        """Return the backend's tools."""
        return self._backend.get_tools()

    async def wait_until_idle(self) -> None:
        """Wait until nothing is being persisted after answers any more."""
        await self._background.join()

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put the snapshot, and what was recalled, before the conversation."""
        ctx.state[_ASKED_AT] = now()
        prompt = _said(messages, "user")
        if not prompt:
            return messages
        run = StartedRun(ctx.ids.thread_id or "", ctx.run_id, prompt)
        try:
            found = await self._backend.recall_before_run(run)
        except Exception as error:  # noqa: BLE001 - a backend may raise anything, and the chat goes on
            ctx.degrade(_told(self._backend, error))
            return messages
        if found.problems:
            ctx.degrade(reported(found.problems))
        for brought in _brought_in(found, ctx):
            messages = insert(messages, [brought])
        return messages

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage what the backend is to keep.

        A run without a prompt or without an answer leaves nothing, and neither does one that was broken off.
        """
        prompt, answer = _said(messages, "user"), _said(messages, "assistant")
        if prompt and answer and not any(message.metadata.get(ABORTED) for message in messages):
            asked_at: datetime = ctx.state.get(_ASKED_AT) or now()
            run = CompletedRun(
                ctx.ids.thread_id or "", ctx.run_id, prompt, answer, asked_at, now(), tuple(messages)
            )
            ctx.on_commit(partial(self._commit, run, ctx))
        return messages

    async def _commit(self, run: CompletedRun, ctx: RunContext) -> None:
        if self._persists_in_background:
            self._background.start(run.session_id, self._persist_in_background(run, ctx))
        else:
            await self._persist(run)

    async def _persist(self, run: CompletedRun) -> None:
        try:
            await self._backend.persist_after_run(run)
        except Exception as error:
            told = _told(self._backend, error)
            if told is error:
                raise
            raise told from None

    async def _persist_in_background(self, run: CompletedRun, ctx: RunContext) -> None:
        try:
            await self._persist(run)
        except RecollectError as error:
            # Behind the answer there is nobody whom a mistake in the program could be raised to.
            ctx.degrade(RecollectError(str(error)) if isinstance(error, WrongOwnerError) else error)


def _said(messages: Sequence[Message], role: str) -> str:
    """Return what was said last in this run by the user or the assistant."""
    texts = [m.text for m in messages if m.role == role and m.origin in ("input", "response") and m.text]
    return texts[-1] if texts else ""


def _brought_in(found: Recollection, ctx: RunContext) -> list[Message]:
    brought: list[Message] = []
    if snapshot := found.snapshot_parts():
        brought.append(
            Message("system", snapshot, id=f"{ctx.run_id}:snapshot", origin="system", kind="snapshot")
        )
    shown = quote_items(found.items)
    if shown:
        content = frame_parts(fence(LABEL, shown.values()))
        brought.append(
            Message("system", content, id=f"{ctx.run_id}:recalled", origin="memory", kind="recalled")
        )
    facts: dict[str, object] = {"snapshot_characters": len(found.snapshot), "recalled": len(found.items)}
    sources = [_facts(found.items[place]) for place in shown]
    ctx.set_details(facts | ({"items": sources} if sources else {}))
    return brought


def quote_items(items: Sequence[RecalledItem]) -> dict[int, str]:
    """Return the items that have something to show, by their places, as far as they fit."""
    shown: dict[int, str] = {}
    left = MOST_IN_ALL
    for place, item in enumerate(items[:MOST_ITEMS]):
        line = _quote_item(item)
        left -= len(line)
        if left < 0:
            break
        if line:
            shown[place] = line
    return shown


def _quote_item(item: RecalledItem) -> str:
    text = quote(item.text, MOST_CHARACTERS)
    source = quote_inline(item.resource_uri or item.session_id or item.source_scope or "", LONGEST_SOURCE)
    if not text:
        return ""
    return f"{BULLET}({source}) {text}" if source else f"{BULLET}{text}"


def _facts(item: RecalledItem) -> dict[str, object]:
    """Return where an item comes from and how well it fits, for the trace, without quoting it."""
    names = {
        "source_scope": item.source_scope,
        "session_id": item.session_id,
        "resource_uri": item.resource_uri,
        "id": item.id,
    }
    facts: dict[str, object] = {} if item.score is None else {"score": item.score}
    return facts | {key: quote_inline(name, LONGEST_SOURCE) for key, name in names.items() if name}


def _told(backend: MemoryBackend, error: Exception) -> RecollectError:
    """Return an error that may be shown: of a foreign one, which may quote anything, only its type."""
    if isinstance(error, RecollectError):
        return error
    return RecollectError(f"{backend.name} failed: {type(error).__name__}")
