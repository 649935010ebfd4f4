"""Every method of the store against a model of plain dicts, for three tenants at once.

Each tenant has the same two users, threads, message ids and keys as the others. After every step all rows
of all six users are compared with the model, those of the tables too, so whatever crosses from one to another
or is left behind is seen at once.
"""

import copy
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.storage import readings
from tests.storage.expected_tables import expect_tables
from tests.storage.model import ModelUser
from tests.storage.model_threads import Place
from tests.storage.opened import ENGINES, OpenStore, open_for_examples
from tests.storage.readings import KEYS, LIMITS, MODELS, PLACES
from tests.storage.strategies import (
    AROUND,
    HOUR,
    IDS,
    LIFETIME,
    METADATA,
    PICKS,
    SOME_IDS,
    START,
    TITLE,
    TOOL_PARTS,
    TURN,
    VALUE,
)
from tests.storage.tables import raw_numbers, read_tables
from tests.support.profiles import count_examples

from recollect import Message, RecollectError, Scope, ToolCall, ToolResult
from recollect.storage.records import MemoryEntry, MessageTerms, Placement, StateEntry
from recollect.text.terms import analyse

EXAMPLES = {"memory": 1, "file": 0.1, "postgres": 0.06}  # of the profile's: as many as seconds allow
PATIENT = settings(report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow])
NAMES = ("ann", "bob")


class Who(NamedTuple):
    """A user of the model."""

    tenant_id: int | str | None
    name: str


class Indexing(NamedTuple):
    """How search rows are stored: of which model, and whether as of before an erasure."""

    model_id: str | None
    segments: int
    replaces: bool
    stale: bool


INDEXING = st.builds(
    Indexing, st.sampled_from(MODELS), st.integers(0, 3), replaces=st.booleans(), stale=st.booleans()
)
ANN = Who(1, "ann")
EVERYBODY = [Who(tenant, name) for tenant in (None, 1, "01") for name in NAMES]
# One user and two threads get most of the steps, so that a few steps make a history worth the name.
WHO = st.just(ANN) | st.sampled_from(EVERYBODY)
PLACE = st.just(PLACES[0]) | st.just(PLACES[1]) | st.sampled_from(PLACES)


@dataclass(frozen=True, slots=True)
class Bundle:
    """An export: its lines, and what the model knew of the user."""

    lines: list[str]
    user: ModelUser


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model."""

    opened: ClassVar[OpenStore]

    def __init__(self) -> None:
        """Begin with six users without data."""
        super().__init__()
        self.store = self.opened.store
        self.opened.clock.time = START
        ids = {name: self.opened.fresh(name) for name in NAMES}
        self.users = {who: ModelUser(who.tenant_id, ids[who.name], START) for who in EVERYBODY}
        self.scopes = [self.scope(who) for who in EVERYBODY]
        self.epochs = dict(zip(EVERYBODY, self.run(readings.epochs(self.store, self.scopes)), strict=True))
        self.highest = {"message": max(self.run(raw_numbers(self.store)), default=0), "other": 0}
        self.before = self.highest["message"]
        self.old_epochs: dict[Who, int] = {}
        self.exports: list[Bundle] = []
        self.touched: set[Who] = set()
        self.moved: tuple[Who, Place] | None = None
        self.removed = False

    @property
    def time(self) -> datetime:
        """The time that the store sees."""
        return self.opened.clock.time

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the method answers with
        """Run a call of the store."""
        return self.opened.run(work)

    def scope(self, who: Who, place: Place | None = None) -> Scope:
        """Return the scope of a user, or of one thread."""
        scope = Scope(who.tenant_id, self.users[who].user_id)
        return scope if place is None else readings.at(scope, place)

    def agree(
        self, who: Who, work: Coroutine[Any, Any, object], model: Callable[[ModelUser], object]
    ) -> None:
        """Run a call on the store, do the same to the model, and compare the outcomes."""
        self.touched.add(who)
        real = self.outcome(lambda: self.run(work))
        assert real == self.outcome(lambda: model(self.users[who]))

    def agree_on_removal(
        self, who: Who, work: Coroutine[Any, Any, object], model: Callable[[ModelUser], object]
    ) -> None:
        """Do the same with a call that may remove something, and note whether it did."""
        before = self._unexpired(who)
        self.agree(who, work, model)
        self.removed = self._unexpired(who) != before

    def _unexpired(self, who: Who) -> ModelUser:
        """Return a copy of what the model knows, without what has expired."""
        user = copy.deepcopy(self.users[who])
        user.remove_expired()
        return user

    def outcome(self, call: Callable[[], object]) -> object:
        """Return what a call answers with, or the kind of its error."""
        try:
            return call()
        except RecollectError as error:
            return type(error)

    def note_new(self, numbers: Sequence[int], kind: str = "other") -> None:
        """Make sure that numbers are new and in order; messages may have a sequence of their own."""
        assert list(numbers) == sorted(set(numbers))
        assert not numbers or numbers[0] > self.highest[kind]
        self.highest[kind] = max((self.highest[kind], *numbers))

    # Writing

    @initialize(
        turns=st.lists(st.tuples(TURN, LIFETIME), min_size=1, max_size=4),
        twin=st.sampled_from(EVERYBODY),
        picks=PICKS,
        model_id=st.sampled_from(MODELS),
    )
    def begin(
        self,
        turns: list[tuple[list[Message], timedelta | None]],
        twin: Who,
        picks: set[int],
        model_id: str | None,
    ) -> None:
        """Give two users some history and search rows, maybe the same user of two tenants."""
        for who, mode in ((ANN, "calm"), (twin, "busy")):
            for turn, lifetime in turns:
                self.append_turn(who, PLACES[0], turn, "run", lifetime)
            self.set_memory(who, KEYS[0], {"mode": mode})
            self.set_state(who, mode)
            self.put_search_rows(who, who, picks, Indexing(model_id, 2, replaces=False, stale=False))

    @rule(seconds=st.sampled_from((1, 3600, 7200)))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.opened.clock.time += timedelta(seconds=seconds)
        for user in self.users.values():
            user.now = self.time

    @rule(who=WHO, place=PLACE, turn=TURN, run_id=st.sampled_from((None, "run")), lifetime=LIFETIME)
    def append_turn(
        self,
        who: Who,
        place: Place,
        turn: list[Message],
        run_id: str | None,
        lifetime: timedelta | None = None,
    ) -> None:
        """Append messages: new ones, known ones, or both, maybe for some time only."""
        self.touched.add(who)
        self.moved = (who, place)
        scope, user = self.scope(who, place), self.users[who]
        due = None if lifetime is None else self.time + lifetime
        work = self.store.append_turn(turn, scope=scope, run_id=run_id, expires_at=due)
        placed = self.outcome(lambda: self.run(work))
        places = cast("list[Placement]", placed) if isinstance(placed, list) else []
        fresh = [item.number for item in places if item.is_new]
        self.note_new(fresh, "message")
        assert placed == self.outcome(
            lambda: user.append_turn(place, turn, fresh, run_id=run_id, expires_at=due)
        )

    @rule(who=WHO, owner=st.none() | WHO, picks=PICKS, indexing=INDEXING)
    def put_search_rows(self, who: Who, owner: Who | None, picks: set[int], indexing: "Indexing") -> None:
        """Store search rows of some messages, which may be another user's, as of now or before an erasure."""
        model_id, segments, replaces, stale = indexing
        stored = self.users[owner or who].stored_messages()
        chosen = [stored[pick][1] for pick in sorted(picks) if pick < len(stored)]
        vectors = [] if model_id is None else [bytes([n, len(model_id), 0, 0]) for n in range(segments)]
        items = [_terms(kept.number, kept.message.text, vectors) for kept in chosen]
        scope, user = self.scope(who), self.users[who]
        now = self.run(self.store.unindexed_messages(None, scope=scope)).erase_epoch
        epoch = self.old_epochs.setdefault(who, now) if stale else now
        if items:
            self.touched.add(who)
            work = self.store.put_search_rows(
                items, model_id=model_id, erase_epoch=epoch, replace=replaces, scope=scope
            )
            count = user.put_search_rows(items, model_id, replaces=replaces) if epoch == now else 0
            assert self.run(work) == count
            self.removed = replaces and count > 0

    @rule(who=WHO, place=PLACE, title=TITLE, metadata=METADATA)
    def create_thread(
        self, who: Who, place: Place, title: str | None, metadata: dict[str, object] | None
    ) -> None:
        """Create a thread, or find it there."""
        work = self.store.create_thread(title=title, metadata=metadata, scope=self.scope(who, place))
        self.agree(who, work, lambda user: user.create_thread(place, title, metadata))

    @rule(who=WHO, place=PLACE, title=TITLE, metadata=METADATA)
    def update_thread(
        self, who: Who, place: Place, title: str | None, metadata: dict[str, object] | None
    ) -> None:
        """Change a thread that may not be there."""
        work = self.store.update_thread(title=title, metadata=metadata, scope=self.scope(who, place))
        self.agree(who, work, lambda user: user.update_thread(place, title, metadata))

    @rule(who=WHO, key=st.sampled_from(KEYS), value=VALUE)
    def set_memory(self, who: Who, key: str, value: dict[str, object]) -> None:
        """Store a value under a key; an entry keeps its number."""
        self.touched.add(who)
        user = self.users[who]
        number = self.run(self.store.set_memory(key, value, scope=self.scope(who)))
        if key in user.memory:
            assert number == user.memory[key].number
        else:
            self.note_new([number])
        user.memory[key] = MemoryEntry(number, key, value, self.time)
        user.is_known = True

    @rule(who=WHO, mode=st.sampled_from(("calm", "busy")))
    def set_state(self, who: Who, mode: str) -> None:
        """Put a user into a mode."""
        self.touched.add(who)
        self.run(self.store.set_state(mode, scope=self.scope(who)))
        self.users[who].state = StateEntry(mode, self.time)
        self.users[who].is_known = True

    @rule(who=WHO, place=PLACE, name=st.sampled_from(("recalled", "added")), payload=VALUE)
    def add_event(self, who: Who, place: Place, name: str, payload: dict[str, object]) -> None:
        """Write an event of a thread that may not be there."""
        self.touched.add(who)
        work = self.store.add_event(name, payload, run_id="run", scope=self.scope(who, place))
        self.note_new([self.run(work)])
        self.users[who].add_event(place, name, payload, "run")

    # Removing

    @rule(who=WHO, place=PLACE, ids=SOME_IDS, all_threads=st.booleans())
    def delete_messages(self, who: Who, place: Place, ids: list[str], *, all_threads: bool) -> None:
        """Remove messages of a thread, or of all threads of an app."""
        self.moved = (who, place)
        scope = self.scope(who, place).with_thread(None if all_threads else place[2])
        self.agree_on_removal(
            who,
            self.store.delete_messages(ids, scope=scope),
            lambda user: user.delete_messages(place, ids, all_threads=all_threads),
        )

    @rule(who=WHO, owner=WHO, pick=st.integers(0, 9))
    def delete_message_number(self, who: Who, owner: Who, pick: int) -> None:
        """Remove a message by its number, which may be one of another tenant's."""
        numbers = [kept.number for _, kept in self.users[owner].stored_messages()] or [10**15]
        number = numbers[pick % len(numbers)]
        self.agree_on_removal(
            Who(who.tenant_id, owner.name),
            self.store.delete_message_number(number, tenant_id=who.tenant_id),
            lambda user: user.delete_number(number),
        )

    @rule(who=WHO, hours=st.integers(-2, 6), dry_run=st.booleans())
    def prune(self, who: Who, hours: int, *, dry_run: bool) -> None:
        """Remove what is old or expired, or only count it."""
        before = START + hours * HOUR
        self.agree_on_removal(
            who,
            self.store.prune(before, dry_run=dry_run, scope=self.scope(who)),
            lambda user: user.prune(before, dry_run=dry_run),
        )

    @rule(who=WHO, place=PLACE)
    def delete_thread(self, who: Who, place: Place) -> None:
        """Remove a thread."""
        work = self.store.delete_thread(scope=self.scope(who, place))
        self.agree_on_removal(who, work, lambda user: user.delete_thread(place))

    @rule(who=WHO)
    def clear_history(self, who: Who) -> None:
        """Remove all threads of a user."""
        work = self.store.clear_history(scope=self.scope(who))
        self.agree_on_removal(who, work, lambda user: user.clear_history())

    @rule(who=WHO, key=st.sampled_from(KEYS))
    def delete_memory(self, who: Who, key: str) -> None:
        """Remove a value that may not be there."""
        work = self.store.delete_memory(key, scope=self.scope(who))
        self.agree_on_removal(who, work, lambda user: user.memory.pop(key, None) is not None)

    @rule(who=WHO)
    def clear_memory(self, who: Who) -> None:
        """Remove all values."""
        work = self.store.clear_memory(scope=self.scope(who))
        self.agree_on_removal(who, work, lambda user: user.clear_memory())

    @rule(who=WHO)
    def delete_state(self, who: Who) -> None:
        """Forget a mode that may not be there."""
        work = self.store.delete_state(scope=self.scope(who))
        self.agree_on_removal(who, work, lambda user: user.delete_state())

    @rule(who=WHO)
    def erase(self, who: Who) -> None:
        """Remove everything about a user; the report's epoch is higher than any before."""
        self.touched.add(who)
        self.removed = True
        report = self.run(self.store.erase(scope=self.scope(who)))
        assert report.counts == self.users[who].erase()
        assert report.epoch > self.epochs[who]

    # Export and import

    def export(self, who: Who) -> Bundle:
        """Export a user, and keep the lines for later."""
        lines = self.run(readings.export(self.store, self.scope(who)))
        self.exports.append(Bundle(lines, self.users[who].snapshot()))
        return self.exports[-1]

    @rule(who=WHO, source=WHO, merge=st.booleans(), old=st.booleans())
    def import_(self, who: Who, source: Who, *, merge: bool, old: bool) -> None:
        """Read an export, of now or of earlier, as any user of any tenant."""
        bundle = self.exports[0] if old and self.exports else self.export(source)
        self.touched.add(who)
        self.moved = (who, PLACES[0])
        scope, user = self.scope(who), self.users[who]
        real = self.outcome(lambda: self.run(self.store.import_(bundle.lines, merge=merge, scope=scope)))
        memory = self.run(readings.memory_numbers(self.store, scope))
        self.note_new(sorted({*memory.values()} - {entry.number for entry in user.memory.values()}))
        messages = self.run(readings.message_numbers(self.store, scope))
        known = {kept.number for _, kept in user.stored_messages()}
        self.note_new(sorted({*messages.values()} - known), "message")
        numbers = memory | messages
        assert real == self.outcome(lambda: user.import_(bundle.user, numbers.__getitem__, merge=merge))

    # Reading, beside what is compared after each step

    @rule(who=WHO, place=PLACE, message_id=st.sampled_from(IDS), limit=st.sampled_from(LIMITS))
    def read_around(self, who: Who, place: Place, message_id: str, limit: int | None) -> None:
        """Read what is before and after a message that may be elsewhere or not there."""
        scope = self.scope(who, place)
        self.agree(
            who,
            readings.facts(self.store.messages_before(message_id, limit, scope=scope)),
            lambda user: readings.in_thread(place, user.messages_before(place, message_id, limit)),
        )
        self.agree(
            who,
            readings.facts(self.store.messages_after(message_id, limit, scope=scope)),
            lambda user: readings.in_thread(place, user.messages_after(place, message_id, limit)),
        )

    @rule(who=WHO, place=PLACE, ids=SOME_IDS, around=AROUND, every=st.booleans())
    def read_by_id(
        self, who: Who, place: Place, ids: list[str], around: tuple[int, int], *, every: bool
    ) -> None:
        """Read messages by id with their neighbours, in one thread or in all of an app."""
        scope = self.scope(who, place).with_thread(None if every else place[2])
        work = self.store.messages_by_id(ids, with_previous=around[0], with_next=around[1], scope=scope)
        self.agree(
            who,
            readings.facts(work),
            lambda user: readings.in_any(user.messages_by_id(place, ids, around, all_threads=every)),
        )

    # Comparing

    @invariant()
    def everything_is_equal(self) -> None:
        """All rows of all users are what the model says, and so is every view of what was at hand."""
        rows = self.run(readings.rows_of_all(self.store, self.scopes))
        users = [self.users[who] for who in EVERYBODY]
        assert rows == [(user.export(), user.search_rows(), user.vectors()) for user in users]
        names = sorted({user.user_id for user in users})
        assert self.run(read_tables(self.store, names, after=self.before)) == expect_tables(users)
        for who in self.touched:
            assert self.run(readings.views(self.store, self.scope(who))) == readings.views_of(self.users[who])
        if self.moved is not None:
            self.parts_are_equal(*self.moved)
        self.epochs_move_only_with_their_users()
        self.touched, self.moved, self.removed = set(), None, False

    def parts_are_equal(self, who: Who, place: Place) -> None:
        """Every page, and what is around every message of a thread, agree with the model."""
        user = self.users[who]
        ids = [kept.message.id for kept in user.last_messages(place, None)]
        after = [kept.number for _, kept in user.all_messages()][::3]
        real = self.run(readings.parts(self.store, self.scope(who, place), ids, after))
        assert real == readings.parts_of(user, place, ids, after)

    def epochs_move_only_with_their_users(self) -> None:
        """An epoch grows with a removal, never shrinks, and heeds no other user."""
        epochs = self.run(readings.epochs(self.store, self.scopes))
        for who, now in zip(EVERYBODY, epochs, strict=True):
            before, self.epochs[who] = self.epochs[who], now
            assert now >= before
            if who in self.touched and self.removed:
                assert now > before
            elif who not in self.touched and any(self.users[who].counts().values()):
                assert now == before


def _terms(number: int, text: str, vectors: Sequence[bytes]) -> MessageTerms:
    terms = analyse(text)
    return MessageTerms(number, "?" in text, terms.hashes, terms.counts, vectors)


@pytest.fixture(scope="module", params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Generator[OpenStore]:
    """A store on each engine in turn."""
    with open_for_examples(request.param, request) as store:
        yield store


def _machine(opened: OpenStore) -> type[StoreMachine]:
    return type("Machine", (StoreMachine,), {"opened": opened})


# Only a failure takes longer than seconds: the search for the shortest way to it.
@pytest.mark.timeout(900)
def test_store_equals_the_model_when_anything_is_done(opened: OpenStore) -> None:
    """Whatever is done in whatever order, every user of every tenant sees what the model says."""
    count = count_examples(EXAMPLES[opened.engine])
    patient = settings(PATIENT, max_examples=count, stateful_step_count=25)
    run_state_machine_as_test(_machine(opened), settings=patient)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("opened", ["memory"], indirect=True)
@settings(PATIENT, max_examples=count_examples(1.5))
@given(bodies=TOOL_PARTS, cuts=st.sets(st.integers(1, 8)), doomed=st.sampled_from(IDS[:9]))
def test_no_reading_separates_a_call_from_its_results_when_turns_are_cut_anywhere(
    opened: OpenStore, bodies: list[tuple[ToolCall | ToolResult, ...]], cuts: set[int], doomed: str
) -> None:
    """Calls and results in any order, spread over any turns, are read and deleted as the model says."""
    machine = _machine(opened)()
    messages = [Message("assistant", parts or "so", id=IDS[index]) for index, parts in enumerate(bodies)]
    ends = [*sorted(cut for cut in cuts if cut < len(messages)), len(messages)]
    for start, end in zip([0, *ends], ends, strict=False):
        machine.append_turn(ANN, PLACES[0], messages[start:end], None)
    machine.parts_are_equal(ANN, PLACES[0])
    machine.delete_messages(ANN, PLACES[0], [doomed], all_threads=False)
    machine.parts_are_equal(ANN, PLACES[0])
