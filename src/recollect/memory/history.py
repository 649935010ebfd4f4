"""Message history: the end of the thread goes in before the prompt, and the turn is kept after the answer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from recollect.errors import ConflictError, StorageError
from recollect.memory.base import MemoryProcessor
from recollect.memory.resent import read_thread, repeated_ids, sent_before_the_prompt
from recollect.messages import Message
from recollect.pipeline.processor import RunContext
from recollect.scope import UNSET, Scope, Unset
from recollect.storage.handle import StoreHandle
from recollect.storage.store import Store
from recollect.text.quoting import fenced
from recollect.validation import check_int

DEFAULT_LAST_MESSAGES = 10
"""How many messages of a thread a run is shown where nothing else is said."""

_IDS_AT_ONCE = 500


OnSaved: TypeAlias = Callable[[Scope, Store], None]
"""What is told that messages of a user were saved."""


class MessagePersistenceProcessor(MemoryProcessor):
    """Keeps the turn as it stands at this place of the list, once the whole chain has passed."""

    id = "message-persistence"
    writes_memory: ClassVar[bool] = True

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
        super().__init__(storage, tenant_id=tenant_id, resource_id=resource_id, thread_id=thread_id)
        self._on_saved = on_saved

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage the turn for saving, all of it but system messages."""
        turn = [message for message in messages if message.role != "system"]
        if turn:
            ctx.on_commit(partial(self._save, turn, ctx))
        return messages

    async def stored_turn(self, ctx: RunContext) -> list[Message]:
        """Return the turn that a run of the same id has committed before, or nothing."""
        store, scope = await self._memory_of(ctx)
        turn = [] if scope is None else await store.turn_of_run(ctx.run_id, scope=scope)
        if scope is not None and turn and turn[0].thread_id != scope.thread_id:
            raise ConflictError(
                f"the run {ctx.run_id!r} is stored in thread {turn[0].thread_id!r} of this user; "
                "give each run an id of its own"
            )
        return turn

    async def _save(self, turn: list[Message], ctx: RunContext) -> bool:
        store, scope = await self._memory_of(ctx)
        if scope is None:
            return False
        fresh = await _without_repeated(turn, store, scope)
        await _check_prompt_ids(fresh, store, scope, ctx.run_id)
        await store.append_turn(fresh, scope=scope, run_id=ctx.run_id)
        if self._on_saved is not None:
            self._on_saved(scope, store)
        return True


async def _without_repeated(turn: list[Message], store: Store, scope: Scope) -> list[Message]:
    """Drop what a client sent again, which nobody has looked for where memory stands on this side alone."""
    sent = len(sent_before_the_prompt(turn))
    if not sent:
        return turn
    known = repeated_ids(turn, await read_thread(store, scope, shown=0, sent=sent))
    return [message for message in turn if message.id not in known]


async def _check_prompt_ids(turn: list[Message], store: Store, scope: Scope, run_id: str) -> None:
    """Refuse a prompt under the id of a stored message that says something else.

    The store keeps the first version; without this the turn would count as saved, question and all.
    """
    given = {m.id: m for m in turn if m.origin == "input" and not m.id.startswith(f"{run_id}:")}
    for stored in await stored_messages(list(given), store, scope):
        message = given.get(stored.id, stored)
        if (stored.role, stored.body) != (message.role, message.body):
            raise ConflictError(
                f"the message id {stored.id!r} is taken by another message of this thread; "
                "give an edited message an id of its own"
            )


async def stored_messages(ids: Sequence[str], store: Store, scope: Scope) -> list[Message]:
    """Return the messages of a thread that have some ids, however many those are."""
    found: list[Message] = []
    for start in range(0, len(ids), _IDS_AT_ONCE):
        found += await store.messages_by_id(ids[start : start + _IDS_AT_ONCE], scope=scope)
    return found


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
            store, scope = await self._memory_of(ctx)
            stored = [] if scope is None else await self._read(store, scope, messages)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        known = repeated_ids(messages, stored)
        prompt = [message for message in messages if message.id not in known]
        shown = _history(stored, prompt, self._limit, with_system=self._with_system)
        said = (index for index, m in enumerate(prompt) if m.origin == "input" and m.role != "system")
        place = next(said, len(prompt))
        return prompt[:place] + shown + prompt[place:]

    async def _read(self, store: Store, scope: Scope, messages: list[Message]) -> list[Message]:
        sent = len(sent_before_the_prompt(messages))
        return await read_thread(store, scope, shown=self._limit, sent=sent, with_system=self._with_system)


def _history(
    stored: Sequence[Message], prompt: Sequence[Message], limit: int | None, *, with_system: bool
) -> list[Message]:
    present = {message.id for message in prompt}
    wanted = [m for m in _unasked(stored, prompt) if m.id not in present]
    wanted = [m for m in wanted if with_system or m.role != "system"]
    if limit is not None and len(wanted) > limit:
        wanted = _whole_units(wanted, limit)
    return [_from_memory(message) for message in wanted]


def _unasked(stored: Sequence[Message], prompt: Sequence[Message]) -> list[Message]:
    """Leave out a question that is asked again, and what was answered: an answer must not come before it."""
    again = {message.id for message in prompt if message.origin == "input"}
    kept: list[Message] = []
    is_asked_again = False
    for message in stored:
        if message.role == "user" or message.id in again:
            is_asked_again = message.id in again
        if not is_asked_again:
            kept.append(message)
    return kept


def _from_memory(message: Message) -> Message:
    if message.role == "system":
        return message.replace(origin="memory", content=fenced("a stored system message", message.text))
    return message.replace(origin="memory")


def _whole_units(messages: list[Message], limit: int) -> list[Message]:
    """Cut to the last messages, but never between a tool call and its result."""
    start = len(messages) - limit
    while 0 < start < len(messages) and messages[start].tool_results:
        start -= 1
    return messages[start:]
