"""The store as plain dicts, for tests that compare it with the real ones.

`ModelUser` does what each method of the contract says, in the simplest way there is. Integer ids are the
store's own choice, so they are handed in where something new is kept.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from tests.storage.model_threads import (
    KeptMessage,
    KeptThread,
    Place,
    Record,
    iso,
    message_record,
)

from recollect import ConflictError, MemoryNotFoundError, Message, Thread
from recollect.storage.records import (
    MemoryEntry,
    MessageTerms,
    Placement,
    PrunedUser,
    SearchRow,
    StateEntry,
    UnindexedMessage,
    VectorRow,
)


@dataclass(slots=True)
class ModelUser:
    """Everything that is kept about one user of one tenant.

    `threads` is what the tables hold, `live` what a reader sees at `now`. `is_known` says whether the user
    has a row, which only an erasure removes.
    """

    tenant_id: int | str | None
    user_id: str
    now: datetime = field(default=datetime(1970, 1, 1, tzinfo=UTC), compare=False)
    threads: dict[Place, KeptThread] = field(default_factory=dict[Place, KeptThread])
    memory: dict[str, MemoryEntry] = field(default_factory=dict[str, MemoryEntry])
    state: StateEntry | None = None
    events: list[Record] = field(default_factory=list[Record])
    is_known: bool = False

    @property
    def live(self) -> dict[Place, KeptThread]:
        """The threads as readers see them."""
        return {place: thread.live(self.now) for place, thread in self.threads.items()}

    def append_turn(
        self,
        place: Place,
        turn: Sequence[Message],
        numbers: Iterable[int],
        *,
        run_id: str | None,
        expires_at: datetime | None,
    ) -> list[Placement]:
        """Keep what is new of a turn under the given numbers, and say where all of it stands."""
        for message in turn:
            self._refuse_elsewhere(place, message.id)
        found = self.live.get(place)
        fresh = [message for message in turn if found is None or found.find(message.id) is None]
        if self._has_any(place, turn):
            self.remove_expired()
        if fresh:
            thread = self.threads.setdefault(place, KeptThread("New Conversation", {}, self.now, self.now))
            thread.updated_at = self.now
            for message, number in zip(fresh, numbers, strict=True):
                thread.add(message, number, run_id, expires_at)
            thread.live(self.now).settle_units()
            if any(kept.is_expired(self.now) for kept in thread.messages):
                self.remove_expired()
            self.is_known = True
        stored = {kept.message.id: kept for kept in self.threads[place].messages}
        new = {message.id for message in fresh}
        return [
            Placement(stored[message.id].position, stored[message.id].number, message.id in new)
            for message in turn
        ]

    def _has_any(self, place: Place, turn: Sequence[Message]) -> bool:
        """Whether an id of a turn is in the tables, maybe of an expired message: then all of those go."""
        threads = [thread for other, thread in self.threads.items() if other[:2] == place[:2]]
        return any(thread.find(message.id) is not None for message in turn for thread in threads)

    def _refuse_elsewhere(self, place: Place, message_id: str) -> None:
        for other, thread in self.live.items():
            if other != place and other[:2] == place[:2] and thread.find(message_id) is not None:
                raise ConflictError

    def remove_expired(self) -> int:
        """Remove the expired messages of all threads, and return how many there were."""
        return sum(
            thread.remove([kept for kept in thread.messages if kept.is_expired(self.now)])
            for thread in self.threads.values()
        )

    # Reading threads

    def last_messages(self, place: Place, limit: int | None) -> list[KeptMessage]:
        """Return the newest messages of a thread."""
        thread = self.live.get(place)
        return [] if thread is None else thread.up_to(len(thread.messages), limit)

    def messages_before(self, place: Place, message_id: str, limit: int | None) -> list[KeptMessage]:
        """Return what ends right before a message and its unit."""
        thread, index = self._message(place, message_id)
        return thread.up_to(thread.units()[index], limit)

    def messages_after(self, place: Place, message_id: str, limit: int | None) -> list[KeptMessage]:
        """Return what begins right after a message and its unit."""
        thread, index = self._message(place, message_id)
        starts = thread.units()
        first = len(starts) - starts[::-1].index(starts[index])
        count = len(thread.messages)
        return thread.whole(first, count if limit is None else min(first + limit, count))

    def page_of_messages(self, place: Place, limit: int, offset: int) -> list[KeptMessage]:
        """Return the units that begin on a page."""
        thread = self.live.get(place)
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
        """Return every message that is not expired, in order of the numbers."""
        return _sort(self.live)

    def stored_messages(self) -> list[tuple[Place, KeptMessage]]:
        """Return every message that the tables hold, in order of the numbers."""
        return _sort(self.threads)

    def _message(self, place: Place, message_id: str) -> tuple[KeptThread, int]:
        thread = self.live.get(place)
        index = None if thread is None else thread.find(message_id)
        if thread is None or index is None:
            raise MemoryNotFoundError
        return thread, index

    def _of_app(self, place: Place, *, all_threads: bool) -> dict[Place, KeptThread]:
        return {
            other: thread
            for other, thread in self.live.items()
            if other[:2] == place[:2] and (all_threads or other == place)
        }

    # Search rows

    def search_rows(self) -> list[SearchRow]:
        """Return what search reads of each message."""
        return [kept.search_row(place) for place, kept in self.user_history()[::-1]]

    def vectors(self) -> list[VectorRow]:
        """Return the vectors of all messages."""
        return [row for _, kept in self.user_history()[::-1] for row in kept.vector_rows()]

    def unindexed(self, model_id: str | None, *, any_model: bool = True) -> list[UnindexedMessage]:
        """Return the messages that lack terms, or vectors."""
        return [
            UnindexedMessage(kept.number, kept.message.text)
            for _, kept in self.user_history()[::-1]
            if kept.lacks_rows(model_id, any_model=any_model)
        ]

    def put_search_rows(self, items: Sequence[MessageTerms], model_id: str | None, *, replaces: bool) -> int:
        """Store terms for those messages that are the user's and are searched."""
        said = {kept.number: kept for _, kept in self.user_history()}
        found = [item for item in items if item.number in said]
        for item in found:
            said[item.number].put_terms(item, model_id, replaces=replaces)
        return len(found)

    # Threads

    def create_thread(self, place: Place, title: str | None, metadata: Mapping[str, object] | None) -> Thread:
        """Create a thread unless it is there."""
        made = KeptThread("New Conversation" if title is None else title, metadata or {}, self.now, self.now)
        self.threads.setdefault(place, made)
        self.is_known = True
        return self.thread(place)

    def update_thread(self, place: Place, title: str | None, metadata: Mapping[str, object] | None) -> Thread:
        """Change what is not None."""
        if place not in self.threads:
            raise MemoryNotFoundError
        thread = self.threads[place]
        thread.title = thread.title if title is None else title
        thread.metadata = thread.metadata if metadata is None else metadata
        thread.updated_at = self.now
        return self.thread(place)

    def delete_thread(self, place: Place) -> bool:
        """Remove a thread with its messages and events."""
        self.events = [event for event in self.events if _place_of(event) != place]
        return self.threads.pop(place, None) is not None

    def thread(self, place: Place) -> Thread:
        """Return a thread as the store shows it."""
        kept = self.threads[place].live(self.now)
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

    def delete_messages(self, place: Place, ids: Sequence[str], *, all_threads: bool) -> int:
        """Remove messages; with a tool call or result, all calls and results of its unit."""
        gone = 0
        for other, thread in self._of_app(place, all_threads=all_threads).items():
            doomed: list[KeptMessage] = []
            for unit in thread.whole_units():
                wanted = [kept for kept in unit if kept.message.id in ids]
                with_tools = any(kept.has_tools for kept in wanted)
                doomed += [kept for kept in unit if kept in wanted or (with_tools and kept.has_tools)]
                for kept in unit if with_tools else ():
                    kept.unit = kept.position
            gone += self.threads[other].remove(doomed, self.now)
        return gone

    def delete_number(self, number: int) -> bool:
        """Remove a message by its number, as by its id."""
        for place, kept in self.all_messages():
            if kept.number == number:
                return self.delete_messages(place, [kept.message.id], all_threads=False) > 0
        return False

    def prune(self, before: datetime, *, dry_run: bool) -> PrunedUser:
        """Remove the units that are older as a whole, and what has expired."""
        old = {
            place: [
                kept
                for unit in thread.whole_units()
                if all(kept.message.created_at < before for kept in unit)
                for kept in unit
            ]
            for place, thread in self.live.items()
        }
        found = PrunedUser(
            sum(map(len, old.values())), len(self.stored_messages()) - len(self.all_messages())
        )
        if not dry_run:
            self.remove_expired()
            for place, messages in old.items():
                self.threads[place].remove(messages)
        return found

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
        self.is_known = False
        return counts

    def counts(self) -> dict[str, int]:
        """Count the rows of each kind."""
        stored = self.stored_messages()
        return {
            "search_rows": sum(kept.count_rows() for _, kept in stored),
            "messages": len(stored),
            "threads": len(self.threads),
            "user_memory": len(self.memory),
            "user_state": int(self.state is not None),
            "working_memory": 0,
            "events": len(self.events),
        }

    def last_activity_at(self) -> datetime | None:
        """Return the time of the last write, as far as something of it is left."""
        times = [thread.updated_at for thread in self.threads.values()]
        times += [entry.updated_at for entry in self.memory.values()]
        times += [datetime.fromisoformat(str(event["created_at"])) for event in self.events]
        return max([*times, self.state.updated_at] if self.state else times, default=None)

    # Export and import

    def export(self) -> list[Record]:
        """Return the lines of an export, decoded."""
        records = [
            *(self.threads[place].record(place) for place in sorted(self.threads)),
            *(message_record(place, kept) for place, kept in self.all_messages()),
            *(_memory_record(self.memory[key]) for key in sorted(self.memory)),
        ]
        if self.state is not None:
            records.append(
                {"kind": "state", "mode": self.state.mode, "updated_at": iso(self.state.updated_at)}
            )
        records += self.events
        head: Record = {"kind": "export", "format": 1, "tenant_id": self.tenant_id, "user_id": self.user_id}
        return [head, *records, {"kind": "end", "lines": len(records)}]

    def snapshot(self) -> "ModelUser":
        """Return a copy of what an export has: neither search rows nor expired messages."""
        copied = copy.deepcopy(self)
        copied.threads = copied.live
        for _, kept in copied.stored_messages():
            kept.terms, kept.model_id, kept.vectors = None, None, ()
        return copied

    def import_(
        self, source: "ModelUser", new_numbers: Callable[[str], int], *, merge: bool
    ) -> dict[str, int]:
        """Take over a snapshot of a user; `new_numbers` gives the number of a new message or memory."""
        if not merge and any(self.counts().values()):
            raise ConflictError
        for place, kept in source.stored_messages():
            self._refuse_elsewhere(place, kept.message.id)
        self.remove_expired()
        new_threads = len(source.threads.keys() - self.threads.keys())
        written = sum(
            self._import_thread(place, thread.live(self.now), new_numbers)
            for place, thread in source.threads.items()
        )
        self.is_known = True
        return {
            "threads": new_threads,
            "messages": written,
            "user_memory": self._import_memory(source, new_numbers),
            "user_state": self._import_state(source.state),
            "working_memory": 0,
            "events": self._import_events(source.events),
        }

    def _import_thread(self, place: Place, given: KeptThread, new_numbers: Callable[[str], int]) -> int:
        if place not in self.threads:
            self.threads[place] = thread = copy.deepcopy(given)
            for kept in thread.messages:
                kept.number = new_numbers(f"{place} {kept.message.id}")
            return len(thread.messages)
        thread = self.threads[place]
        fresh = [kept for kept in given.messages if thread.find(kept.message.id) is None]
        for kept in fresh:
            number = new_numbers(f"{place} {kept.message.id}")
            thread.add(kept.message, number, kept.run_id, kept.expires_at)
        thread.settle_units()
        thread.updated_at = self.now if fresh else thread.updated_at
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

    def add_event(self, place: Place, name: str, payload: Record, run_id: str | None) -> None:
        """Keep an event, as the line that an export has of it."""
        event: Record = dict(
            zip(("kind", "app_id", "project_id", "thread_id"), ("event", *place), strict=True)
        )
        event |= {"name": name, "run_id": run_id, "payload": payload, "context_visible": False}
        self.events.append(event | {"created_at": iso(self.now)})
        self.is_known = True

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


def _sort(threads: dict[Place, KeptThread]) -> list[tuple[Place, KeptMessage]]:
    pairs = [(place, kept) for place, thread in threads.items() for kept in thread.messages]
    return sorted(pairs, key=lambda pair: pair[1].number)


def _memory_record(entry: MemoryEntry) -> Record:
    return {
        "kind": "memory",
        "key": entry.key,
        "value": entry.value,
        "updated_at": iso(entry.updated_at),
    }


def _place_of(event: Record) -> Place:
    return cast("Place", (event["app_id"], event["project_id"], event["thread_id"]))
