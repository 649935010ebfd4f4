"""The place of a long-term memory in the pipeline: after the guards on both sides."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from recollect.backends.base import CompletedRun, MemoryBackend, Recollection, StartedRun
from recollect.backends.rendering import as_parts, shown_items
from recollect.concurrency.tasks import BackgroundTasks
from recollect.errors import RecollectError, WrongOwnerError, reported
from recollect.messages import ABORTED, Message, now
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor

if TYPE_CHECKING:
    from datetime import datetime

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

    async def settled(self) -> None:
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
        return [*_brought_in(found, ctx), *messages]

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
    if found.snapshot:
        brought.append(Message("system", found.snapshot, id=f"{ctx.run_id}:snapshot", origin="system"))
    shown = shown_items(found.items)
    if shown:
        brought.append(Message("system", as_parts(shown), id=f"{ctx.run_id}:recalled", origin="memory"))
    facts: dict[str, object] = {"snapshot_characters": len(found.snapshot), "recalled": len(found.items)}
    ctx.details(facts | ({"items": [item.facts() for item in shown]} if shown else {}))
    return brought


def _told(backend: MemoryBackend, error: Exception) -> RecollectError:
    """Return an error that may be shown: of a foreign one, which may quote anything, only its type."""
    if isinstance(error, RecollectError):
        return error
    return RecollectError(f"{backend.name} failed: {type(error).__name__}")
