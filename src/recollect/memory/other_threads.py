"""The latest messages of the user's other threads, as one labelled message before the history."""

from typing import Unpack

from recollect.errors import StorageError
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message, frame_parts
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.text.quoting import fence, quote
from recollect.validation import check_int

_MAX_THREADS = 4  # the latest ones


class OtherThreadsProcessor(MemoryProcessor):
    """Shows the model the last messages of the user's other threads."""

    id = "other-threads"

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        last_messages: int = 5,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, how many messages to show, and the owner's ids."""
        super().__init__(store, **owner)
        self._limit = check_int(last_messages, "last_messages", minimum=1)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert one fenced message before the prompt; if the read fails, go on without it."""
        try:
            found = await self._read(ctx)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        if not found:
            return messages
        items = [f"{m.created_at:%Y-%m-%d %H:%M} {m.role}: {quote(m.text)}" for m in found]
        context = Message(
            "system",
            frame_parts(fence("from other conversations with this user", items)),
            id=f"{ctx.run_id}:other-threads",
            origin="memory",
            kind="other_threads",
        )
        return insert(messages, [context])

    async def _read(self, ctx: RunContext) -> list[Message]:
        store, scope = await self._open_to_read(ctx)
        if scope is None:
            return []
        threads = await store.list_threads(limit=_MAX_THREADS + 1, scope=scope)
        found: list[Message] = []
        for thread in threads:
            if thread.id != scope.thread_id:
                found += await store.last_messages(self._limit, scope=scope.with_thread(thread.id))
        spoken = sorted((m for m in found if m.is_conversation), key=lambda m: m.number or 0)
        return spoken[-self._limit :]
