"""Message history: the end of the thread goes in before the prompt, and the turn is kept after the answer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from recollect.checks import check_int
from recollect.errors import StorageError
from recollect.messages import Message
from recollect.processors.base import Processor, RunContext, RunIds
from recollect.processors.memory_scope import resolve_scope
from recollect.scope import UNSET, Scope, Unset
from recollect.storage.base import Store
from recollect.storage.handle import StoreHandle

DEFAULT_LAST_MESSAGES = 10
"""How many messages of a thread a run is shown where nothing else is said."""


OnSaved: TypeAlias = Callable[[Scope, Store], None]
"""What is told that messages of a user were saved."""


class MessagePersistenceProcessor(Processor):
    """Keeps the turn as it stands at this place of the list, once the whole chain has passed."""

    id = "message-persistence"
    observes: ClassVar[bool] = True

    def __init__(
        self,
        storage: Store | StoreHandle | str,
        *,
        on_saved: OnSaved | None = None,
        tenant_id: int | Unset | None = UNSET,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store or its address, what to call after a save, and ids for runs that are given none."""
        self._on_saved = on_saved
        self._handle = storage if isinstance(storage, StoreHandle) else StoreHandle(storage)
        self._defaults = RunIds(tenant_id, resource_id, thread_id)

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage the turn for saving, all of it but system messages."""
        turn = [message for message in messages if message.role != "system"]
        if turn:
            ctx.on_commit(partial(self._save, turn, ctx))
        return messages

    async def stored_turn(self, ctx: RunContext) -> list[Message]:
        """Return the turn that a run of the same id has committed before, or nothing."""
        store = await self._handle.get()
        scope = resolve_scope(ctx.ids, self._defaults, store)
        return [] if scope is None else await store.turn_of_run(ctx.run_id, scope=scope)

    async def _save(self, turn: list[Message], ctx: RunContext) -> bool:
        store = await self._handle.get()
        scope = resolve_scope(ctx.ids, self._defaults, store)
        if scope is None:
            return False
        await store.append_turn(turn, scope=scope, run_id=ctx.run_id)
        if self._on_saved is not None:
            self._on_saved(scope, store)
        return True


class MessageHistoryProcessor(MessagePersistenceProcessor):
    """Shows the model the last messages of the thread, and keeps the turn on the output side."""

    id = "message-history"

    def __init__(
        self,
        storage: Store | StoreHandle | str,
        *,
        last_messages: int | None = DEFAULT_LAST_MESSAGES,
        include_system_messages: bool = False,
        tenant_id: int | Unset | None = UNSET,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store or its address, how much to show, and ids for runs that are given none."""
        super().__init__(storage, tenant_id=tenant_id, resource_id=resource_id, thread_id=thread_id)
        self._limit = None if last_messages is None else check_int(last_messages, "last_messages")
        self._with_system = include_system_messages

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put what the thread ends with before the prompt; a failed read goes on without it."""
        try:
            store = await self._handle.get()
            scope = resolve_scope(ctx.ids, self._defaults, store)
            stored = [] if scope is None else await self._read(store, scope, messages)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        prompt = _without_repeated(messages, stored)
        shown = _history(stored, prompt, self._limit, with_system=self._with_system)
        place = next(
            (index for index, message in enumerate(prompt) if message.origin == "input"), len(prompt)
        )
        return prompt[:place] + shown + prompt[place:]

    async def _read(self, store: Store, scope: Scope, messages: list[Message]) -> list[Message]:
        # A client that sends its whole history again is recognised by reading as much as it sent.
        sent = sum(message.origin == "input" for message in messages)
        limit = None if self._limit is None else max(self._limit, sent - 1)
        return [] if limit == 0 else await store.last_messages(limit, scope=scope)


def _without_repeated(messages: list[Message], stored: Sequence[Message]) -> list[Message]:
    """Drop from the prompt what the thread already has, when a client sent its history along.

    If the talk before the last message is what the thread ends with, all of it is; else a message is
    recognised by its id. The last message is the prompt itself, and always stays.
    """
    earlier = [message for message in messages if message.origin == "input"][:-1]
    said = [(message.role, message.text) for message in earlier if message.is_conversation]
    talk = [(message.role, message.text) for message in stored if message.is_conversation]
    if said and said == talk[-len(said) :]:
        known = {message.id for message in earlier}
    else:
        known = {message.id for message in earlier} & {message.id for message in stored}
    return [message for message in messages if message.id not in known]


def _history(
    stored: Sequence[Message], prompt: Sequence[Message], limit: int | None, *, with_system: bool
) -> list[Message]:
    present = {message.id for message in prompt}
    wanted = [m for m in stored if m.id not in present and (with_system or m.role != "system")]
    if limit is not None and len(wanted) > limit:
        wanted = _whole_units(wanted, limit)
    return [message.replace(origin="memory") for message in wanted]


def _whole_units(messages: list[Message], limit: int) -> list[Message]:
    """Cut to the last messages, but never between a tool call and its result."""
    start = len(messages) - limit
    while 0 < start < len(messages) and messages[start].tool_results:
        start -= 1
    return messages[start:]
