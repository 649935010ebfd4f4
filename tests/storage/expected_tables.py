"""What the model says that the tables of a database hold."""

import json
from collections.abc import Iterable

from tests.storage.model import ModelUser
from tests.storage.model_threads import KeptMessage, KeptThread
from tests.storage.tables import RawMessage, RawSearchRow, RawThread, Tables

from recollect import Scope
from recollect.messages import part_to_dict
from recollect.storage.rows import to_micros
from recollect.text.terms import ANALYSER_VERSION


def expect_tables(users: Iterable[ModelUser]) -> Tables:
    """Return all rows of some users; who was erased has none in any table."""
    tables = Tables({}, [], [], [])
    for user in users:
        key = Scope(user.tenant_id, user.user_id).tenant_key
        counts = user.counts() | {"users": int(user.is_known)}
        tables.counts.update(
            {
                (table, user.user_id, key): count
                for table, count in counts.items()
                if count and table not in ("messages", "search_rows")
            }
        )
        for place, thread in user.threads.items():
            names = (user.user_id, key, *place)
            tables.threads.append(_expect_thread(names, thread))
            tables.messages.extend(_expect_message(names, kept) for kept in thread.messages)
        for _, kept in user.stored_messages():
            tables.search_rows.extend(_expect_search_rows(kept))
    tables.threads.sort()
    tables.messages.sort()
    tables.search_rows.sort(key=lambda row: row[:2])
    return tables


def _expect_thread(names: tuple[str, str, str, str, str], thread: KeptThread) -> RawThread:
    expiries = [to_micros(kept.expires_at) for kept in thread.messages if kept.expires_at is not None]
    last = thread.last_message_at
    return RawThread(
        names,
        len(thread.messages),
        sum(map(_count_bytes, thread.messages)),
        min(expiries, default=None),
        None if last is None else to_micros(last),
        thread.next_position,
    )


def _expect_message(names: tuple[str, str, str, str, str], kept: KeptMessage) -> RawMessage:
    return RawMessage(
        names,
        kept.position,
        kept.number,
        kept.unit,
        kept.message.id,
        to_micros(kept.message.created_at),
        None if kept.expires_at is None else to_micros(kept.expires_at),
        _count_bytes(kept),
    )


def _expect_search_rows(kept: KeptMessage) -> list[RawSearchRow]:
    """Return a row for each segment; the first has the terms."""
    if kept.terms is None:
        return []
    terms = (kept.terms.asks, kept.terms.term_hashes, kept.terms.term_counts)
    return [
        RawSearchRow(
            kept.number,
            segment,
            ANALYSER_VERSION,
            *((False, b"", b"") if segment else terms),
            kept.model_id,
            vector,
        )
        for segment, vector in enumerate(kept.vectors or [None])
    ]


def _count_bytes(kept: KeptMessage) -> int:
    """Count the bytes of the text, and of the parts and the metadata as JSON."""
    message = kept.message
    texts = [message.text]
    if not isinstance(message.body, str):
        texts.append(_encode([part_to_dict(part) for part in message.body]))
    if message.metadata:
        texts.append(_encode(message.metadata))
    return sum(len(text.encode()) for text in texts)


def _encode(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
