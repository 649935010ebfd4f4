"""Message history: the end of the thread goes before the prompt, and the turn is stored after the answer.

Clients may send their whole history with each prompt, and many send no ids. So the stored and the sent
messages are aligned by role and text. Everything up to the last passage that both have is known: the thread
has it, or had it until somebody deleted it. Only the rest is new:

    stored   user "hi"   assistant "hello"   user "how are you?"   assistant "fine"
    sent                 assistant "hello"   user "how are you?"   assistant "fine"   user "good"
                         └──────────────── known ─────────────────────────────────┘   new
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias, Unpack

from recollect.errors import ConflictError, StorageError
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message, frame_parts
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.storage.store import Store
from recollect.text.quoting import fence, quote
from recollect.tool_pairs import assign_units, drop_orphan_results
from recollect.validation import check_int

_MAX_ALIGNED = 200  # alignment takes quadratic time, and only the end of a thread matters
_MIN_MATCH = 2  # a shorter passage in the middle of a prompt may match by chance
_READ_FACTOR = 4
DEFAULT_LAST_MESSAGES = 10
"""How many messages of a thread the model is shown by default."""
_ID_BATCH = 500
OnSaved: TypeAlias = Callable[[Scope, Store], None]
"""A callback after messages of a user were saved."""
ReadLast: TypeAlias = Callable[[int | None], Awaitable[list[Message]]]
"""Reads the last messages of a thread, as many as it is told."""


class MessagePersistenceProcessor(MemoryProcessor):
    """Stores the turn as the processors before it left it, after the whole chain has passed."""

    id = "message-persistence"
    writes_memory: ClassVar[bool] = True

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        on_saved: OnSaved | None = None,
        ttl: timedelta | None = None,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, a callback after each save, and the owner's ids.

        What is stored expires after `ttl`, if given.
        """
        super().__init__(store, **owner)
        self._on_saved = on_saved
        self._ttl = ttl

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage the turn for saving, without system messages."""
        turn = [message for message in messages if message.role != "system"]
        self._resolve_scope(ctx)  # what it raises is the caller's mistake, not a failed write
        if turn:
            ctx.on_commit(partial(self._save, turn, ctx))
        return messages

    async def get_stored_turn(self, ctx: RunContext) -> list[Message]:
        """Return the turn that an earlier run of the same id committed; empty if there is none."""
        store, scope = await self._open(ctx)
        turn = [] if scope is None else await store.turn_of_run(ctx.run_id, scope=scope)
        if scope is not None and turn and turn[0].thread_id != scope.thread_id:
            raise ConflictError(
                f"the run {ctx.run_id!r} is stored in thread {turn[0].thread_id!r} of this user; "
                "give each run an id of its own"
            )
        return turn

    async def _save(self, turn: list[Message], ctx: RunContext) -> bool:
        store, scope = await self._open(ctx)
        if scope is None:
            return False
        fresh = await _drop_resent(turn, store, scope)
        await _check_prompt_ids(fresh, store, scope, ctx.run_id)
        due = expires_after(self._ttl, store)
        await store.append_turn(
            fresh,
            scope=scope,
            run_id=ctx.run_id,
            expires_at=due,
            erase_epoch=self._get_pinned(scope, ctx),
        )
        if self._on_saved is not None:
            self._on_saved(scope, store)
        return True


def expires_after(ttl: timedelta | None, store: Store) -> datetime | None:
    """Return when a message that is stored now expires."""
    return None if ttl is None else store.clock() + ttl


async def _drop_resent(turn: list[Message], store: Store, scope: Scope) -> list[Message]:
    """Drop messages that the client sent again.

    The input side has done so already, unless memory is in the output list alone.
    """
    sent = len(get_sent_history(turn))
    if not sent:
        return turn
    stored = await read_thread(partial(store.last_messages, scope=scope), shown=0, sent=sent)
    known = find_resent_ids(turn, stored)
    return [message for message in turn if message.id not in known]


async def _check_prompt_ids(turn: list[Message], store: Store, scope: Scope, run_id: str) -> None:
    """Raise for a prompt with the id of a stored message that says something else.

    The store keeps the first version of an id: the turn would count as saved without its question.
    """
    given = {m.id: m for m in turn if m.origin == "input" and not m.id.startswith(f"{run_id}:")}
    for stored in await load_messages(list(given), store, scope):
        message = given.get(stored.id, stored)
        if (stored.role, stored.body) != (message.role, message.body):
            raise ConflictError(
                f"the message id {stored.id!r} is taken by another message of this thread; "
                "give an edited message an id of its own"
            )


async def load_messages(ids: Sequence[str], store: Store, scope: Scope) -> list[Message]:
    """Return the messages of a thread by id, in batches: the store limits the ids of one call."""
    found: list[Message] = []
    for start in range(0, len(ids), _ID_BATCH):
        found += await store.messages_by_id(ids[start : start + _ID_BATCH], scope=scope)
    return found


class MessageHistoryProcessor(MessagePersistenceProcessor):
    """Shows the model the last messages of the thread, and stores the turn on the output side."""

    id = "message-history"

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        last_messages: int | None = DEFAULT_LAST_MESSAGES,
        include_system_messages: bool = False,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, how many messages to show, and the owner's ids."""
        super().__init__(store, **owner)
        self._limit = None if last_messages is None else check_int(last_messages, "last_messages")
        self._with_system = include_system_messages

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert the end of the thread before the prompt; if the read fails, go on without it."""
        try:
            store, scope = await self._open(ctx)
            stored = [] if scope is None else await self._read(store, scope, messages, ctx)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        known = find_resent_ids(messages, stored)
        prompt = [message for message in messages if message.id not in known]
        return insert(prompt, _select_history(stored, prompt, self._limit, with_system=self._with_system))

    async def _read(
        self, store: Store, scope: Scope, messages: list[Message], ctx: RunContext
    ) -> list[Message]:
        async def read(limit: int | None) -> list[Message]:
            # The epoch comes with the messages, so that it takes no round trip of its own.
            found, erase_epoch = await store.read_for_run(limit, scope=scope)
            self._pin(erase_epoch, scope, ctx)
            return found

        sent = len(get_sent_history(messages))
        return await read_thread(read, shown=self._limit, sent=sent, with_system=self._with_system)


def _select_history(
    stored: Sequence[Message], prompt: Sequence[Message], limit: int | None, *, with_system: bool
) -> list[Message]:
    present = {message.id for message in prompt}
    wanted = [m for m in _drop_asked_again(stored, prompt) if m.id not in present]
    wanted = [m for m in wanted if with_system or m.role != "system"]
    if limit is not None and len(wanted) > limit:
        wanted = _keep_last_units(wanted, limit)
    # A result that came very late stands alone, and models reject one without its call.
    return [_mark_as_memory(message) for message in drop_orphan_results(wanted)]


def _drop_asked_again(stored: Sequence[Message], prompt: Sequence[Message]) -> list[Message]:
    """Leave out a question that is asked again, and its answer: an answer must not precede its question."""
    again = {message.id for message in prompt if message.origin == "input"}
    kept: list[Message] = []
    is_asked_again = False
    for message in stored:
        if message.role == "user" or message.id in again:
            is_asked_again = message.id in again
        if not is_asked_again:
            kept.append(message)
    return kept


def _mark_as_memory(message: Message) -> Message:
    if message.role == "system":
        return message.replace(
            origin="memory", content=frame_parts(fence("a stored system message", [quote(message.text)]))
        )
    return message.replace(origin="memory")


def _keep_last_units(messages: list[Message], limit: int) -> list[Message]:
    """Keep the last messages, and never a tool result without its call."""
    units = assign_units(list(enumerate(messages)))
    return messages[units[-limit] :] if limit else []


class _Utterance(NamedTuple):
    """What one side said before the other answered, and the index of its last message."""

    role: str
    text: str
    last_index: int


def get_sent_history(messages: Sequence[Message]) -> list[Message]:
    """Return what the caller sent before the message to answer, without system messages."""
    return [message for message in messages if message.origin == "input" and message.role != "system"][:-1]


def find_resent_ids(messages: Sequence[Message], stored: Sequence[Message]) -> set[str]:
    """Return the ids of the messages in a prompt that the thread has already.

    The last message is the prompt itself, and system messages are never stored: both are always new.
    """
    earlier = get_sent_history(messages)
    here = {message.id for message in stored}
    return {message.id for message in earlier[: _count_known(earlier, stored)]} | {
        message.id for message in earlier if message.id in here
    }


async def read_thread(
    read: ReadLast, *, shown: int | None, sent: int, with_system: bool = False
) -> list[Message]:
    """Read the end of a thread: as many messages as are shown, and as many utterances as the client sent."""
    limit = None if shown is None else max(shown, sent)
    while limit != 0:
        found = await read(limit)
        if limit is None or shown is None or len(found) < limit:
            return found
        visible = sum(with_system or message.role != "system" for message in found)
        if visible >= shown and len(_to_utterances(found)) >= sent:
            return found
        limit *= _READ_FACTOR
    return []


def _count_known(earlier: Sequence[Message], stored: Sequence[Message]) -> int:
    """Return how many of the sent messages the thread has or had."""
    said, kept = _to_utterances(earlier), _to_utterances(stored)
    if not said or not kept:
        return 0
    if _get_texts(said) == _get_texts(kept[-len(said) :]):
        return len(earlier)
    said, kept = said[-_MAX_ALIGNED:], kept[-_MAX_ALIGNED:]
    blocks = SequenceMatcher(None, _get_texts(said), _get_texts(kept), autojunk=False).get_matching_blocks()
    ends = [
        block.a + block.size
        for block in blocks
        if _is_reliable(said[block.a : block.a + block.size], block.a)
    ]
    return said[ends[-1] - 1].last_index + 1 if ends else 0


def _is_reliable(passage: Sequence[_Utterance], start: int) -> bool:
    """Whether a match is no accident: it has an answer and more, or the client begins with it."""
    answered = any(said.role == "assistant" for said in passage)
    return answered and (start == 0 or len(passage) >= _MIN_MATCH)


def _to_utterances(messages: Sequence[Message]) -> list[_Utterance]:
    """Return who said what; the assistant's texts around its tool calls are one utterance."""
    utterances: list[_Utterance] = []
    for index, message in enumerate(messages):
        if not message.is_conversation:
            continue
        text = message.text.strip()
        if message.role == "assistant" and utterances and utterances[-1].role == "assistant":
            text = f"{utterances.pop().text}\n{text}"
        utterances.append(_Utterance(message.role, text, index))
    return utterances


def _get_texts(utterances: Sequence[_Utterance]) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in utterances]
