"""User memory, the values that a program stores about a user by key, shown before the conversation."""

import json
from typing import Unpack

from recollect.errors import StorageError
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message, frame_parts
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.storage.records import MemoryEntry
from recollect.text.quoting import BULLET, fence, quote, quote_inline
from recollect.validation import check_int

_MAX_KEY = 100  # characters


class UserMemoryProcessor(MemoryProcessor):
    """Shows the model what `users.set_memory` has stored about the user; the model cannot change it."""

    id = "user-memory"

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        max_characters: int = 8_000,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, how much to show, and the owner's ids."""
        super().__init__(store, **owner)
        self._max_characters = check_int(max_characters, "max_characters", minimum=1)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert one fenced message, a line for each key; if the read fails, go on without it."""
        try:
            store, scope = await self._open(ctx)
            entries = [] if scope is None else await store.list_memory(scope=scope)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        items = self._choose(entries, ctx)
        if not items:
            return messages
        shown = Message(
            "system",
            frame_parts(fence("stored about this user", items)),
            id=f"{ctx.run_id}:user-memory",
            origin="memory",
            kind="user_memory",
        )
        return insert(messages, [shown])

    def _choose(self, entries: list[MemoryEntry], ctx: RunContext) -> list[str]:
        """Return the lines that fit, the values changed last first."""
        lines: dict[str, str] = {}
        left = self._max_characters
        for entry in sorted(entries, key=lambda entry: entry.updated_at, reverse=True):
            line = f"{BULLET}{quote_inline(entry.key, _MAX_KEY)}: {quote(_format(entry.value))}"
            left -= len(line)
            if left < 0:
                ctx.note(f"{len(entries) - len(lines)} of {len(entries)} values of user memory do not fit")
                break
            lines[entry.key] = line
        return [lines[key] for key in sorted(lines)]


def _format(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)
