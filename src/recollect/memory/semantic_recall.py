"""Semantic recall: messages related to the prompt, of this thread or others, go before the conversation.

Recalled messages are dated and shown once each, grouped by thread; those of this thread come first. What is
only shown because it stands beside a hit is marked as context:

    Earlier in this conversation:
    On Monday, 06 May 2030:
      09:05 user: My sister is called Mia.
      09:06 assistant, context: A lovely name.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Unpack, cast

from recollect.errors import EmbedderChangedError, StorageError
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message, frame_parts
from recollect.pipeline.prompt_order import insert
from recollect.recall.settings import (
    DEFAULT_MAX_TOKENS,
    DEFAULT_THRESHOLD,
    DEFAULT_TOP_K,
    RecallSettings,
    SearchScope,
)
from recollect.scope import UNSET
from recollect.text.quoting import fence, quote, quote_inline
from recollect.validation import check_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from recollect.pipeline.context import RunContext
    from recollect.recall.recaller import Recaller
    from recollect.recall.results import Hit, Recall
    from recollect.scope import Scope
    from recollect.storage.opening import StoreHandle, StoreLocation

HERE = "Earlier in this conversation:"
ELSEWHERE = "From other conversations with this user:"
_MAX_NAME = 60  # names are outside the budget of tokens
LABEL = "recalled from memory"
"""The label of the block of recalled messages in the prompt."""


class SemanticRecallProcessor(MemoryProcessor):
    """Finds messages related to the prompt and shows them to the model as quotes."""

    id = "semantic-recall"

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        store: StoreLocation | StoreHandle,
        *,
        embedder: object = UNSET,
        explain: bool = False,
        recaller: Recaller | None = None,
        top_k: int = DEFAULT_TOP_K,
        threshold: float | None = DEFAULT_THRESHOLD,
        scope: SearchScope = "resource",
        message_range: int | Mapping[str, int] = 1,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        id: str | None = None,  # noqa: A002 - the field's name
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, an embedder (None: words alone), search options and owner's ids.

        With `explain` the trace has the scores of each recalled message. `recaller` shares one that exists.
        A second one in a list, with other options, needs an `id` of its own; nothing is shown twice.
        """
        super().__init__(store, **owner)
        self.id = self.id if id is None else check_id(id, "id")
        self._settings = RecallSettings(top_k, threshold, scope, message_range, max_tokens)
        self._explain = explain
        self._recaller = recaller or new_recaller(self._handle, embedder)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert what was found before the conversation; if the search fails, go on without it."""
        question = _get_question(messages)
        if not question:
            return messages
        try:
            _, scope = await self._open_to_read(ctx)
            if scope is None:
                return messages
            found = await self._search(question, scope, messages)
        except (StorageError, EmbedderChangedError) as error:
            ctx.degrade(error)
            return messages
        for note in found.notes:
            ctx.note(note)
        if self._explain:
            ctx.set_details(found.to_dict(with_text=False))
        return _insert_recalled(messages, found, scope, f"{ctx.run_id}:{self.id}")

    async def _search(self, question: str, scope: Scope, messages: list[Message]) -> Recall:
        # Messages that history shows are excluded, so that they do not use up `top_k`.
        shown = {message.number for message in messages if message.number is not None}
        return await self._recaller.search(
            question, self._settings, scope=scope, exclude=shown, explain=self._explain
        )


def _get_question(messages: list[Message]) -> str:
    """Return the user's last message of this run."""
    said = [m.text for m in messages if m.role == "user" and m.origin == "input"]
    return said[-1].strip() if said else ""


def _insert_recalled(messages: list[Message], found: Recall, scope: Scope, message_id: str) -> list[Message]:
    shown = {message.id for message in messages}
    for message in messages:
        shown.update(
            cast("list[str]", message.metadata.get("recalled", ())) if message.kind == "recalled" else ()
        )
    lines = format_recalled(found, scope.thread_id, shown)
    if not lines:
        return messages
    # One part for each line, so that a guard after memory can remove a single one.
    recalled = Message(
        "system",
        frame_parts(fence(LABEL, lines)),
        id=message_id,
        metadata={"recalled": [hit.message.id for hit in found]},
        origin="memory",
        kind="recalled",
    )
    return insert(messages, [recalled])


def new_recaller(handle: StoreHandle, embedder: object) -> Recaller:
    """Return the search on a store, with an embedder (UNSET: the built-in one, None: words alone)."""
    from recollect.recall.embedding.embedder import choose_embedder
    from recollect.recall.recaller import Recaller

    return Recaller(handle, choose_embedder(embedder))


class _Line(NamedTuple):
    message: Message
    text: str
    is_context: bool = False


def format_recalled(hits: Iterable[Hit], thread_id: str | None, shown: Collection[str] = ()) -> list[str]:
    """Return one line for each heading and message, without messages whose ids are in `shown`."""
    found: dict[str, _Line] = {}
    for hit in hits:
        for message in (*hit.before, *hit.after):
            found.setdefault(message.id, _Line(message, message.text, is_context=True))
        found[hit.message.id] = _Line(hit.message, _get_excerpt(hit))
    lines = sorted(
        (line for line in found.values() if line.message.id not in shown),
        key=lambda line: line.message.number or 0,
    )
    here = [line for line in lines if line.message.thread_id == thread_id]
    elsewhere = [line for line in lines if line.message.thread_id != thread_id]
    return [*_format_group(HERE, here), *_format_group(ELSEWHERE, elsewhere)]


def _format_group(heading: str, lines: list[_Line]) -> list[str]:
    if not lines:
        return []
    shown = [heading]
    by_thread = sorted(lines, key=lambda line: line.message.thread_id or "")  # stable: by number within
    groups = [list(group) for _, group in groupby(by_thread, key=lambda line: line.message.thread_id)]
    for group in sorted(groups, key=lambda group: group[0].message.number or 0):
        for day, said in groupby(group, key=lambda line: f"{line.message.created_at:%A, %d %B %Y}"):
            shown.append(f"On {day}:")
            shown += [_format_line(line) for line in said]
    return shown


def _format_line(line: _Line) -> str:
    name = line.message.metadata.get("name")
    known = quote_inline(name, _MAX_NAME) if isinstance(name, str) else ""
    role = f"{line.message.role}, context" if line.is_context else line.message.role
    who = f"{known} ({role})" if known else role
    return f"  {line.message.created_at:%H:%M} {who}: {quote(line.text)}"


def _get_excerpt(hit: Hit) -> str:
    if hit.segment is None:
        return hit.text
    start, end = hit.segment
    return ("… " if start else "") + hit.text + (" …" if end < len(hit.message.text) else "")
