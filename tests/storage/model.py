"""The store as plain dicts, for tests that compare it with the real ones.

`ModelUser` does what each method of the contract says, in the simplest way there is. Integer ids are the
store's own choice, so they are handed in where something new is kept.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, cast

from recollect import ConflictError, MemoryNotFoundError, Message, Thread
from recollect.messages import part_to_dict
from recollect.storage.records import MemoryEntry, Placement, SearchRow, StateEntry
from recollect.storage.rows import to_micros
from recollect.text.terms import analyse

Place: TypeAlias = tuple[str, str, str]
"""The app, the project and the id of a thread."""

Record: TypeAlias = dict[str, object]
"""One line of an export."""


@dataclass(slots=True)
class KeptMessage:
    """A message where it stands."""

    message: Message
    position: int
    number: int
    run_id: str | None

    def facts(self, place: Place) -> tuple[object, ...]:
        """Return all that a reader can see of it; compare `facts_of`."""
        return _facts(self.message, place[2], self.position, self.number, self.run_id)


@dataclass(slots=True)
class KeptThread:
    """A thread with its messages in order."""

    title: str
    metadata: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    next_position: int = 1
    messages: list[KeptMessage] = field(default_factory=list[KeptMessage])

    def add(self, message: Message, number: int, run_id: str | None) -> KeptMessage:
        """Put a message at the end."""
        kept = KeptMessage(message, self.next_position, number, run_id)
        self.messages.append(kept)
        self.next_position += 1
        return kept

    def find(self, message_id: str) -> int | None:
        """Return the index of a message, or None."""
        for index, kept in enumerate(self.messages):
            if kept.message.id == message_id:
                return index
        return None

    def units(self) -> list[int]:
        """Return for each message the index of the first one that must not be separated from it.

        A result belongs to the nearest call of its id before it, with all that stands between.
        """
        starts = list(range(len(self.messages)))
        calls: dict[str, int] = {}
        for index, kept in enumerate(self.messages):
            for result in kept.message.tool_results:
                if result.call_id in calls:
                    start = starts[calls[result.call_id]]
                    starts[: index + 1] = [min(known, start) for known in starts[: index + 1]]
            calls |= {call.id: index for call in kept.message.tool_calls}
        return starts

    def whole(self, first: int, end: int) -> list[KeptMessage]:
        """Return the messages from an index up to another, with the rest of the units at both ends."""
        if first >= end:
            return []
        starts = self.units()
        first = starts[first]
        while end < len(starts) and starts[end] == starts[end - 1]:
            end += 1
        return self.messages[first:end]

    @property
    def last_message_at(self) -> datetime | None:
        """The time of the message that stands last."""
        return self.messages[-1].message.created_at if self.messages else None


@dataclass(slots=True)
class ModelUser:
    """Everything that is kept about one user of one tenant."""

    tenant_id: int | None
    user_id: str
    threads: dict[Place, KeptThread] = field(default_factory=dict[Place, KeptThread])
    memory: dict[str, MemoryEntry] = field(default_factory=dict[str, MemoryEntry])
    state: StateEntry | None = None
    events: list[Record] = field(default_factory=list[Record])

    def append_turn(
        self,
        place: Place,
        turn: Sequence[Message],
        numbers: Iterable[int],
        *,
        run_id: str | None,
        time: datetime,
    ) -> list[Placement]:
        """Keep what is new of a turn under the given numbers, and say where all of it stands."""
        for message in turn:
            self._refuse_elsewhere(place, message.id)
        found = self.threads.get(place)
        fresh = [message for message in turn if found is None or found.find(message.id) is None]
        if fresh:
            thread = self.threads.setdefault(place, found or KeptThread("New Conversation", {}, time, time))
            thread.updated_at = time
            for message, number in zip(fresh, numbers, strict=True):
                thread.add(message, number, run_id)
        stored = {kept.message.id: kept for kept in self.threads[place].messages}
        return [Placement(stored[message.id].position, stored[message.id].number) for message in turn]

    def _refuse_elsewhere(self, place: Place, message_id: str) -> None:
        for other, thread in self.threads.items():
            if other != place and other[:2] == place[:2] and thread.find(message_id) is not None:
                raise ConflictError

    # Reading threads

    def last_messages(self, place: Place, limit: int | None) -> list[KeptMessage]:
        """Return the newest messages of a thread."""
        thread = self.threads.get(place)
        return [] if thread is None else _up_to(thread, len(thread.messages), limit)

    def messages_before(self, place: Place, message_id: str, limit: int | None) -> list[KeptMessage]:
        """Return what ends right before a message and its unit."""
        thread, index = self._message(place, message_id)
        return _up_to(thread, thread.units()[index], limit)

    def messages_after(self, place: Place, message_id: str, limit: int | None) -> list[KeptMessage]:
        """Return what begins right after a message and its unit."""
        thread, index = self._message(place, message_id)
        starts = thread.units()
        first = len(starts) - starts[::-1].index(starts[index])
        count = len(thread.messages)
        return thread.whole(first, count if limit is None else min(first + limit, count))

    def page_of_messages(self, place: Place, limit: int, offset: int) -> list[KeptMessage]:
        """Return the units that begin on a page."""
        thread = self.threads.get(place)
        if thread is None:
            return []
        page = range(offset, min(offset + limit, len(thread.messages)))
        return [kept for start, kept in zip(thread.units(), thread.messages, strict=True) if start in page]

    def messages_by_id(
        self, place: Place, ids: Sequence[str], around: tuple[int, int], *, all_threads: bool
    ) -> list[tuple[Place, KeptMessage]]:
        """Return messages by id with so many before and after each, in order of their numbers."""
        found: dict[int, tuple[Place, KeptMessage]] = {}
        for other, thread in self._of_app(place, all_threads=all_threads).items():
            for message_id in ids:
                index = thread.find(message_id)
                if index is not None:
                    end = min(index + 1 + around[1], len(thread.messages))
                    window = thread.whole(max(index - around[0], 0), end)
                    found |= {kept.number: (other, kept) for kept in window}
        return [found[number] for number in sorted(found)]

    def user_history(self) -> list[tuple[Place, KeptMessage]]:
        """Return what user and assistant said, newest first."""
        said = [(place, kept) for place, kept in self.all_messages() if kept.message.is_conversation]
        return said[::-1]

    def all_messages(self) -> list[tuple[Place, KeptMessage]]:
        """Return every message in order of the numbers."""
        pairs = [(place, kept) for place, thread in self.threads.items() for kept in thread.messages]
        return sorted(pairs, key=lambda pair: pair[1].number)

    def search_rows(self) -> list[SearchRow]:
        """Return the search rows that the messages must have."""
        return [_search_row(place, kept) for place, kept in self.user_history()[::-1]]

    def _message(self, place: Place, message_id: str) -> tuple[KeptThread, int]:
        thread = self.threads.get(place)
        index = None if thread is None else thread.find(message_id)
        if thread is None or index is None:
            raise MemoryNotFoundError
        return thread, index

    def _of_app(self, place: Place, *, all_threads: bool) -> dict[Place, KeptThread]:
        return {
            other: thread
            for other, thread in self.threads.items()
            if other[:2] == place[:2] and (all_threads or other == place)
        }

    # Threads

    def create_thread(
        self, place: Place, title: str | None, metadata: Mapping[str, object] | None, time: datetime
    ) -> Thread:
        """Create a thread unless it is there."""
        made = KeptThread("New Conversation" if title is None else title, metadata or {}, time, time)
        self.threads.setdefault(place, made)
        return self.thread(place)

    def update_thread(
        self, place: Place, title: str | None, metadata: Mapping[str, object] | None, time: datetime
    ) -> Thread:
        """Change what is not None."""
        if place not in self.threads:
            raise MemoryNotFoundError
        thread = self.threads[place]
        thread.title = thread.title if title is None else title
        thread.metadata = thread.metadata if metadata is None else metadata
        thread.updated_at = time
        return self.thread(place)

    def delete_thread(self, place: Place) -> bool:
        """Remove a thread with its messages and events."""
        self.events = [event for event in self.events if _place_of(event) != place]
        return self.threads.pop(place, None) is not None

    def thread(self, place: Place) -> Thread:
        """Return a thread as the store shows it."""
        kept = self.threads[place]
        return Thread(
            id=place[2],
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            app_id=place[0],
            project_id=place[1],
            title=kept.title,
            metadata=kept.metadata,
            created_at=kept.created_at,
            updated_at=kept.updated_at,
            last_message_at=kept.last_message_at,
            message_count=len(kept.messages),
        )

    def list_threads(self, place: Place) -> list[Thread]:
        """Return the threads beside a place, the latest message first."""
        threads = sorted(
            (self.thread(other) for other in self._of_app(place, all_threads=True)), key=lambda item: item.id
        )
        return sorted(threads, key=lambda item: item.last_message_at or item.created_at, reverse=True)

    # Removing

    def delete_messages(self, place: Place, ids: Sequence[str], time: datetime, *, all_threads: bool) -> int:
        """Remove messages with their units."""
        gone = 0
        for thread in self._of_app(place, all_threads=all_threads).values():
            starts = thread.units()
            doomed = {starts[index] for index in map(thread.find, ids) if index is not None}
            left = [kept for start, kept in zip(starts, thread.messages, strict=True) if start not in doomed]
            gone += len(thread.messages) - len(left)
            if doomed:
                thread.messages, thread.updated_at = left, time
        return gone

    def delete_number(self, number: int, time: datetime) -> bool:
        """Remove a message by its number, with its unit."""
        for place, kept in self.all_messages():
            if kept.number == number:
                return self.delete_messages(place, [kept.message.id], time, all_threads=False) > 0
        return False

    def clear_history(self) -> int:
        """Remove all threads."""
        said = len(self.user_history())
        self.threads, self.events = {}, []
        return said

    def clear_memory(self) -> int:
        """Remove all values."""
        count, self.memory = len(self.memory), {}
        return count

    def delete_state(self) -> bool:
        """Forget the mode."""
        was_there, self.state = self.state is not None, None
        return was_there

    def erase(self) -> dict[str, int]:
        """Remove everything and count it by kind."""
        counts = self.counts()
        self.threads, self.memory, self.state, self.events = {}, {}, None, []
        return counts

    def counts(self) -> dict[str, int]:
        """Count the rows of each kind."""
        return {
            "vectors": 0,
            "messages": len(self.all_messages()),
            "threads": len(self.threads),
            "user_memory": len(self.memory),
            "user_state": int(self.state is not None),
            "working_memory": 0,
            "events": len(self.events),
        }

    def numbers(self) -> set[int]:
        """Return all integer ids of the user."""
        entries = [entry.number for entry in self.memory.values()]
        return {kept.number for _, kept in self.all_messages()} | set(entries)

    # Export and import

    def export(self) -> list[Record]:
        """Return the lines of an export, decoded."""
        records = [
            *(_thread_record(place, self.threads[place]) for place in sorted(self.threads)),
            *(_message_record(place, kept) for place, kept in self.all_messages()),
            *(_memory_record(self.memory[key]) for key in sorted(self.memory)),
        ]
        if self.state is not None:
            records.append(
                {"kind": "state", "mode": self.state.mode, "updated_at": _iso(self.state.updated_at)}
            )
        records += self.events
        head: Record = {"kind": "export", "format": 1, "tenant_id": self.tenant_id, "user_id": self.user_id}
        return [head, *records, {"kind": "end", "lines": len(records)}]

    def import_(
        self, source: "ModelUser", new_numbers: Callable[[str], int], *, merge: bool, time: datetime
    ) -> dict[str, int]:
        """Take over a copy of another user; `new_numbers` gives the number of a new message or memory."""
        if not merge and any(self.counts().values()):
            raise ConflictError
        for place, kept in source.all_messages():
            self._refuse_elsewhere(place, kept.message.id)
        new_threads = len(source.threads.keys() - self.threads.keys())
        written = sum(
            self._import_thread(place, source.threads[place], new_numbers, time) for place in source.threads
        )
        return {
            "threads": new_threads,
            "messages": written,
            "user_memory": self._import_memory(source, new_numbers),
            "user_state": self._import_state(source.state),
            "working_memory": 0,
            "events": self._import_events(source.events),
        }

    def _import_thread(
        self, place: Place, given: KeptThread, new_numbers: Callable[[str], int], time: datetime
    ) -> int:
        if place not in self.threads:
            self.threads[place] = thread = copy.deepcopy(given)
            for kept in thread.messages:
                kept.number = new_numbers(f"{place} {kept.message.id}")
            return len(thread.messages)
        thread = self.threads[place]
        fresh = [kept for kept in given.messages if thread.find(kept.message.id) is None]
        for kept in fresh:
            thread.add(kept.message, new_numbers(f"{place} {kept.message.id}"), kept.run_id)
        thread.updated_at = time if fresh else thread.updated_at
        return len(fresh)

    def _import_memory(self, source: "ModelUser", new_numbers: Callable[[str], int]) -> int:
        newer = 0
        for key, entry in source.memory.items():
            stored = self.memory.get(key)
            if stored is None or entry.updated_at > stored.updated_at:
                number = new_numbers(key) if stored is None else stored.number
                self.memory[key] = MemoryEntry(number, key, entry.value, entry.updated_at)
                newer += 1
        return newer

    def _import_state(self, state: StateEntry | None) -> int:
        if state is None or (self.state is not None and self.state.updated_at >= state.updated_at):
            return 0
        self.state = state
        return 1

    # Events

    def add_event(self, place: Place, name: str, payload: Record, run_id: str | None, time: datetime) -> None:
        """Keep an event, as the line that an export has of it."""
        event: Record = dict(
            zip(("kind", "app_id", "project_id", "thread_id"), ("event", *place), strict=True)
        )
        event |= {"name": name, "run_id": run_id, "payload": payload, "context_visible": False}
        self.events.append(event | {"created_at": _iso(time)})

    def list_events(self, place: Place, limit: int | None, *, all_threads: bool) -> list[Record]:
        """Return the newest events of a thread, or of all threads beside it."""
        length = 2 if all_threads else 3
        found = [event for event in self.events if _place_of(event)[:length] == place[:length]]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    def _import_events(self, events: list[Record]) -> int:
        known, count = list(self.events), len(self.events)
        for event in events:
            if event in known:
                known.remove(event)
            else:
                self.events.append(event)
        return len(self.events) - count


def facts_of(message: Message) -> tuple[object, ...]:
    """Return all that can be seen of a stored message, what `==` leaves out included."""
    return _facts(message, message.thread_id, message.position, message.number, message.run_id)


def _facts(message: Message, *place: object) -> tuple[object, ...]:
    created_at = message.created_at.astimezone(UTC)
    return (message.id, message.role, message.origin, message.body, message.metadata, created_at, *place)


def _up_to(thread: KeptThread, end: int, limit: int | None) -> list[KeptMessage]:
    first = 0 if limit is None else max(end - limit, 0)
    return thread.whole(first, end)


def _search_row(place: Place, kept: KeptMessage) -> SearchRow:
    terms = analyse(kept.message.text)
    name = kept.message.metadata.get("name")
    speaker = name if isinstance(name, str) else None
    time = to_micros(kept.message.created_at)
    asks = any(mark in kept.message.text for mark in "?\uff1f\u061f")
    return SearchRow(kept.number, *place, kept.position, time, speaker, asks, terms.hashes, terms.counts)


def _thread_record(place: Place, thread: KeptThread) -> Record:
    return {
        "kind": "thread",
        "app_id": place[0],
        "project_id": place[1],
        "id": place[2],
        "title": thread.title,
        "metadata": thread.metadata,
        "created_at": _iso(thread.created_at),
        "updated_at": _iso(thread.updated_at),
        "next_position": thread.next_position,
    }


def _message_record(place: Place, kept: KeptMessage) -> Record:
    message = kept.message
    content = message.body if isinstance(message.body, str) else [part_to_dict(part) for part in message.body]
    return {
        "kind": "message",
        "app_id": place[0],
        "project_id": place[1],
        "thread_id": place[2],
        "position": kept.position,
        "id": message.id,
        "role": message.role,
        "origin": message.origin,
        "content": content,
        "metadata": message.metadata,
        "created_at": _iso(message.created_at),
        "run_id": kept.run_id,
    }


def _memory_record(entry: MemoryEntry) -> Record:
    return {
        "kind": "memory",
        "key": entry.key,
        "value": entry.value,
        "updated_at": _iso(entry.updated_at),
    }


def _place_of(event: Record) -> Place:
    return cast("Place", (event["app_id"], event["project_id"], event["thread_id"]))


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
