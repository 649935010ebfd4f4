"""Message history: the end of the thread goes before the prompt, and the turn is stored after the answer.

Clients may send their whole history again, and many make no ids. So the stored and the sent messages are
read as who said what, and aligned in order. Everything before the last passage that both have is old: it is
stored already, or was deleted from the thread. Only what follows is new.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias, Unpack

from recollect.errors import ConflictError, StorageError
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message, frame_parts
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.scope import Scope
from recollect.storage.opening import Place, StoreHandle
from recollect.storage.store import Store
from recollect.text.quoting import fence, quote
from recollect.tool_pairs import assign_units
from recollect.validation import check_int

_MOST_LAID_SIDE_BY_SIDE = 200  # the time for this grows faster than the length, and the end is what counts
_SURE_LENGTH = 2  # a shorter passage in the middle of a prompt may be the same by chance
_READ_MORE = 4
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
        store: Place | StoreHandle,
        *,
        on_saved: OnSaved | None = None,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, what to call after a save, and whose memory it is."""
        super().__init__(store, **owner)
        self._on_saved = on_saved

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage the turn for saving, all of it but system messages."""
        turn = [message for message in messages if message.role != "system"]
        self._scope_of(ctx)  # what it raises is the caller's mistake, not a failed write
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
        store: Place | StoreHandle,
        *,
        last_messages: int | None = DEFAULT_LAST_MESSAGES,
        include_system_messages: bool = False,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, how much to show, and whose memory it is."""
        super().__init__(store, **owner)
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
        return insert(prompt, _history(stored, prompt, self._limit, with_system=self._with_system))

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
        return message.replace(
            origin="memory", content=frame_parts(fence("a stored system message", [quote(message.text)]))
        )
    return message.replace(origin="memory")


def _whole_units(messages: list[Message], limit: int) -> list[Message]:
    """Cut to the last messages, but never between a tool call and its result."""
    units = assign_units(list(enumerate(messages)))
    return messages[units[-limit] :] if limit else []


class Said(NamedTuple):
    """What one side said at a time, and the place of the message that ends it."""

    role: str
    text: str
    last: int


def sent_before_the_prompt(messages: Sequence[Message]) -> list[Message]:
    """Return what the caller sent before the message that is to be answered, without system messages."""
    return [message for message in messages if message.origin == "input" and message.role != "system"][:-1]


def repeated_ids(messages: Sequence[Message], stored: Sequence[Message]) -> set[str]:
    """Return the ids of the messages in a prompt that the thread has already.

    The last message is the prompt itself, and system messages are never stored: they are always new.
    """
    earlier = sent_before_the_prompt(messages)
    here = {message.id for message in stored}
    return {message.id for message in earlier[: _end_of_known(earlier, stored)]} | {
        message.id for message in earlier if message.id in here
    }


async def read_thread(
    store: Store, scope: Scope, *, shown: int | None, sent: int, with_system: bool = False
) -> list[Message]:
    """Read the end of a thread: as many messages as are shown, and as much talk as a client has sent."""
    limit = None if shown is None else max(shown, sent)
    while limit != 0:
        found = await store.last_messages(limit, scope=scope)
        if limit is None or shown is None or len(found) < limit:
            return found
        visible = sum(with_system or message.role != "system" for message in found)
        if visible >= shown and len(_talk(found)) >= sent:
            return found
        limit *= _READ_MORE
    return []


def _end_of_known(earlier: Sequence[Message], stored: Sequence[Message]) -> int:
    """Return how many of the messages sent are old."""
    said, kept = _talk(earlier), _talk(stored)
    if not said or not kept:
        return 0
    if _lines(said) == _lines(kept[-len(said) :]):
        return len(earlier)
    said, kept = said[-_MOST_LAID_SIDE_BY_SIDE:], kept[-_MOST_LAID_SIDE_BY_SIDE:]
    blocks = SequenceMatcher(None, _lines(said), _lines(kept), autojunk=False).get_matching_blocks()
    ends = [
        block.a + block.size for block in blocks if _is_sure(said[block.a : block.a + block.size], block.a)
    ]
    return said[ends[-1] - 1].last + 1 if ends else 0


def _is_sure(passage: Sequence[Said], start: int) -> bool:
    """Whether a passage is no chance: an answer is in it, and more, or it is what the client begins with."""
    answered = any(said.role == "assistant" for said in passage)
    return answered and (start == 0 or len(passage) >= _SURE_LENGTH)


def _talk(messages: Sequence[Message]) -> list[Said]:
    """Return who said what; what the assistant says around its tool calls is one answer."""
    talk: list[Said] = []
    for place, message in enumerate(messages):
        if not message.is_conversation:
            continue
        text = message.text.strip()
        if message.role == "assistant" and talk and talk[-1].role == "assistant":
            text = f"{talk.pop().text}\n{text}"
        talk.append(Said(message.role, text, place))
    return talk


def _lines(talk: Sequence[Said]) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in talk]
