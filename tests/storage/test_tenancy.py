"""Nobody sees, changes or learns of the data of another tenant or user.

Every public method is called by a stranger with the ids of others, once where the others keep something and
once where they do not. The stranger must not be able to tell the two apart, and what the others keep must
stay as it was. A new method without a probe in the tables below fails the suite.
"""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple, TypeAlias, cast

import pytest
from tests.storage import readings
from tests.storage.model_threads import facts_of
from tests.storage.opened import ENGINES, OpenStore, open_for_examples
from tests.support.profiles import IS_LONG

from recollect import Message, RecollectError, Scope, Store, TextPart, ToolCall, ToolResult
from recollect.scope import TenantId
from recollect.storage.records import MessageTerms
from recollect.users import Users

Answer: TypeAlias = Awaitable[object] | AsyncIterator[str]
"""What a method gives back at once."""


@dataclass(frozen=True, slots=True)
class Loot:
    """What a stranger might know of another's data, beside the ids that all users share."""

    number: int
    lines: list[str]


class World(NamedTuple):
    """A stranger, the same user id in two other tenants, and another user of the stranger's tenant."""

    stranger: Scope
    others: tuple[Scope, Scope]
    neighbour: Scope


def _worlds(opened: OpenStore) -> list[World]:
    """Return a world for each tenant that the stranger can have; no other test has its users."""
    user, neighbour, number = opened.fresh(), opened.fresh(), 10**6 + next(opened.numbers)
    one, two, three = (Scope(tenant, user, "t") for tenant in (None, number, f"0{number}"))
    return [
        World(stranger, others, Scope(stranger.tenant_id, neighbour, "t"))
        for stranger, others in ((one, (two, three)), (two, (one, three)), (three, (one, two)))
    ]


TENANTS = ("None", "int", "text")
"""Which tenant the stranger is in `_worlds`, in that order."""

EXEMPT = {"clock", "close", "ping", "purge", "engine_name", "is_in_memory", "sync"}
"""What is about the store and not about anybody's data."""

TENANT_WIDE = {"delete_message_number", "delete_message", "list_users"}
"""What finds a message or the name of any user of the tenant."""

ALIKE = {"add_event", "epoch", "pin_epoch", "pin_erase_epoch", "set_state", "add_message", "set_user_state"}
"""What answers alike whether or not there is something to see."""


WORDS = ("question", "answer", "thanks")
LATER = datetime(9999, 1, 1, tzinfo=UTC)


def _turn(text: str) -> list[Message]:
    return [
        Message("user", f"{text} {WORDS[0]}", id="m1", metadata={"topic": 1}),
        Message("assistant", [ToolCall("c1", "look", {"for": text})], id="m2"),
        Message("tool", [ToolResult("c1", "look", text)], id="m3"),
        Message("assistant", [TextPart(f"{text} {WORDS[1]}"), ToolCall("c2", "look")], id="m4"),
        Message("user", f"{text} {WORDS[2]}", id="m5"),
    ]


async def _append_result_of_earlier_call(store: Store, scope: Scope) -> object:
    messages = [Message("user", "probe", id=f"x{number}") for number in range(6)]
    result = Message("tool", [ToolResult("c2", "look", "probe")], id="x6")
    await store.append_turn(messages, scope=scope)
    await store.append_turn([result], scope=scope)
    return await store.last_messages(1, scope=scope)


async def _has_epoch(store: Store, scope: Scope) -> bool:
    return await store.epoch(scope=scope) >= 0


async def _put_search_rows(store: Store, scope: Scope, number: int) -> int:
    epoch = await store.pin_erase_epoch(scope=scope)
    terms = [MessageTerms(number, asks=False, term_hashes=bytes(4), term_counts=bytes(1))]
    return await store.put_search_rows(terms, erase_epoch=epoch, scope=scope)


async def _is_listed(store: Store, scope: Scope) -> bool:
    return scope.user_id in [user.user_id for user in await store.list_users(tenant_id=scope.tenant_id)]


async def _searched(store: Store, scope: Scope) -> object:
    return (await store.search_rows(scope=scope))[1:]


async def _unindexed(store: Store, scope: Scope) -> object:
    return (await store.unindexed_messages("m", scope=scope)).messages


async def _has_pinned_epoch(store: Store, scope: Scope) -> bool:
    return await store.pin_epoch(scope=scope) >= 0


async def _has_pinned_erase_epoch(store: Store, scope: Scope) -> bool:
    return await store.pin_erase_epoch(scope=scope) >= 0


async def _has_erase_epoch(store: Store, scope: Scope) -> bool:
    return await store.erase_epoch(scope=scope) is not None


async def _read_for_run(store: Store, scope: Scope, limit: int | None) -> list[Message]:
    return (await store.read_for_run(limit, scope=scope))[0]


# Times as Python and as ISO 8601 write them, and the ids of messages that were given none.
_VARYING = re.compile(r"datetime\.datetime\([^)]*\)|\d{4}-\d\d-\d\dT[\d:.+]*|\b[0-9a-f]{24,}\b")

STORE_PROBES: dict[str, Callable[[Store, Scope, Loot], Answer]] = {
    "add_event": lambda store, scope, _: store.add_event("probe", {}, scope=scope),
    "append_turn": lambda store, scope, _: store.append_turn(_turn("probe"), scope=scope),
    "append_turn: result of an earlier call": lambda store, scope, _: _append_result_of_earlier_call(
        store, scope
    ),
    "clear_history": lambda store, scope, _: store.clear_history(scope=scope),
    "clear_memory": lambda store, scope, _: store.clear_memory(scope=scope),
    "clear_working_memory": lambda store, scope, _: store.clear_working_memory(scope=scope),
    "count_unindexed": lambda store, scope, _: store.count_unindexed("m", scope=scope),
    "count_user_history": lambda store, scope, _: store.count_user_history(scope=scope),
    "create_thread": lambda store, scope, _: store.create_thread(title="probe", scope=scope),
    "delete_memory": lambda store, scope, _: store.delete_memory("k", scope=scope),
    "delete_message_number": lambda store, scope, loot: store.delete_message_number(
        loot.number, tenant_id=scope.tenant_id
    ),
    "delete_messages": lambda store, scope, _: store.delete_messages(["m1", "m3"], scope=scope),
    "delete_state": lambda store, scope, _: store.delete_state(scope=scope),
    "delete_thread": lambda store, scope, _: store.delete_thread(scope=scope),
    "epoch": lambda store, scope, _: _has_epoch(store, scope),
    "erase_epoch": lambda store, scope, _: _has_erase_epoch(store, scope),
    "erase": lambda store, scope, _: store.erase(scope=scope),
    "export": lambda store, scope, _: store.export(scope=scope),
    "get_memory": lambda store, scope, _: store.get_memory("k", scope=scope),
    "get_state": lambda store, scope, _: store.get_state(scope=scope),
    "get_working_memory": lambda store, scope, _: store.get_working_memory(scope=scope),
    "get_working_memory: of the user": lambda store, scope, _: store.get_working_memory(
        scope=scope.with_thread(None)
    ),
    "get_thread": lambda store, scope, _: store.get_thread(scope=scope),
    "import_": lambda store, scope, loot: store.import_(loot.lines, scope=scope),
    "last_messages": lambda store, scope, _: store.last_messages(None, scope=scope),
    "last_messages: part of a unit": lambda store, scope, _: store.last_messages(3, scope=scope),
    "read_for_run": lambda store, scope, _: _read_for_run(store, scope, None),
    "read_for_run: part of a unit": lambda store, scope, _: _read_for_run(store, scope, 3),
    "list_users": lambda store, scope, _: _is_listed(store, scope),
    "list_events": lambda store, scope, _: store.list_events(scope=scope),
    "list_events: of all threads": lambda store, scope, _: store.list_events(scope=scope.with_thread(None)),
    "list_memory": lambda store, scope, _: store.list_memory(scope=scope),
    "list_threads": lambda store, scope, _: store.list_threads(scope=scope),
    "messages_after": lambda store, scope, _: store.messages_after("m1", None, scope=scope),
    "messages_after: part of a unit": lambda store, scope, _: store.messages_after("m2", 1, scope=scope),
    "messages_before": lambda store, scope, _: store.messages_before("m4", None, scope=scope),
    "messages_by_id": lambda store, scope, _: store.messages_by_id(
        ["m1"], with_next=1000, scope=scope.with_thread(None)
    ),
    "numbers_with_metadata": lambda store, scope, _: store.numbers_with_metadata({"topic": 1}, scope=scope),
    "page_of_messages": lambda store, scope, _: store.page_of_messages(limit=10**9, scope=scope),
    "page_of_messages: part of a unit": lambda store, scope, _: store.page_of_messages(limit=2, scope=scope),
    "messages_by_number": lambda store, scope, loot: store.messages_by_number([loot.number], scope=scope),
    "prune": lambda store, scope, _: store.prune(LATER, scope=scope),
    "prune: dry run": lambda store, scope, _: store.prune(LATER, dry_run=True, scope=scope),
    "put_search_rows": lambda store, scope, loot: _put_search_rows(store, scope, loot.number),
    "search_rows": lambda store, scope, _: _searched(store, scope),
    "unindexed_messages": lambda store, scope, _: _unindexed(store, scope),
    "pin_epoch": lambda store, scope, _: _has_pinned_epoch(store, scope),
    "pin_erase_epoch": lambda store, scope, _: _has_pinned_erase_epoch(store, scope),
    "restore_working_memory": lambda store, scope, _: store.restore_working_memory(1, scope=scope),
    "set_memory": lambda store, scope, _: store.set_memory("k", {"by": "probe"}, scope=scope),
    "set_state": lambda store, scope, _: store.set_state("probe", scope=scope),
    "turn_of_run": lambda store, scope, _: store.turn_of_run("run", scope=scope),
    "update_thread": lambda store, scope, _: store.update_thread(title="probe", scope=scope),
    "update_working_memory": lambda store, scope, _: store.update_working_memory(
        {"by": "probe"}, scope=scope
    ),
    "update_working_memory: of the user": lambda store, scope, _: store.update_working_memory(
        {"by": "probe"}, strategy="replace", scope=scope.with_thread(None)
    ),
    "user_history": lambda store, scope, _: store.user_history(scope=scope),
    "working_memory_history": lambda store, scope, _: store.working_memory_history(scope=scope),
}

USERS_PROBES: dict[str, Callable[[Users, str, TenantId, Loot], Awaitable[object]]] = {
    "add_message": lambda users, user, tenant, _: users.add_message(user, "user", "probe", tenant),
    "clear_all_memory": lambda users, user, tenant, _: users.clear_all_memory(user, tenant),
    "clear_conversation_history": lambda users, user, tenant, _: users.clear_conversation_history(
        user, tenant
    ),
    "count_messages": lambda users, user, tenant, _: users.count_messages(user, tenant),
    "delete_memory": lambda users, user, tenant, _: users.delete_memory(user, "k", tenant),
    "delete_message": lambda users, _, tenant, loot: users.delete_message(loot.number, tenant),
    "delete_user_state": lambda users, user, tenant, _: users.delete_user_state(user, tenant),
    "get_all_memory": lambda users, user, tenant, _: users.get_all_memory(user, tenant),
    "get_conversation_history": lambda users, user, tenant, _: users.get_conversation_history(user, tenant),
    "get_memory": lambda users, user, tenant, _: users.get_memory(user, "k", tenant),
    "get_recent_messages": lambda users, user, tenant, _: users.get_recent_messages(user, tenant),
    "get_user_state": lambda users, user, tenant, _: users.get_user_state(user, tenant),
    "set_memory": lambda users, user, tenant, _: users.set_memory(user, "k", {"by": "probe"}, tenant),
    "set_user_state": lambda users, user, tenant, _: users.set_user_state(user, "probe", tenant),
}

METHODS = [
    *(pytest.param(Store, name, id=f"Store.{name}") for name in STORE_PROBES),
    *(pytest.param(Users, name, id=f"Users.{name}") for name in USERS_PROBES),
]


@pytest.fixture(scope="module")
def open_once(request: pytest.FixtureRequest) -> Generator[Callable[[str], OpenStore]]:
    """What opens a store on an engine and keeps it: tests come in any order, and to fill one takes a while.

    Its numbers have four digits, to be told from small counts.
    """
    with ExitStack() as stack:

        @cache
        def open_once(engine: str) -> OpenStore:
            opened = stack.enter_context(open_for_examples(engine, request))
            dummies = [Message("user", "dummy") for _ in range(1000)]
            opened.run(opened.store.append_turn(dummies, scope=Scope(1, "dummy", "t")))
            opened.run(_draw_numbers(opened.store))
            return opened

        yield open_once


# Each kind of SQL once: a file has the same as memory.
@pytest.fixture(params=(ENGINES[0], ENGINES[2]))
def opened(request: pytest.FixtureRequest, open_once: Callable[[str], OpenStore]) -> OpenStore:
    """A store on both databases in turn."""
    return open_once(request.param)


async def _draw_numbers(store: Store) -> None:
    """Write events until their numbers have four digits too: not every engine shares them with messages."""
    while await store.add_event("dummy", {}, scope=Scope(1, "dummy", "t")) < 1000:
        pass


@pytest.mark.parametrize(
    ("subject", "probes"), [(Store, STORE_PROBES), (Users, USERS_PROBES)], ids=["Store", "Users"]
)
def test_every_public_method_has_a_probe(subject: type, probes: dict[str, object]) -> None:
    """A method that nobody tried as a stranger must not exist."""
    public = {name for name, _ in inspect.getmembers(subject) if not name.startswith("_")} - EXEMPT
    probed = {_method_of(probe) for probe in probes}
    missing, gone = sorted(public - probed), sorted(probed - public)
    assert not missing, f"{subject.__name__}: write a probe in {__name__} for {missing}"
    assert not gone, f"{subject.__name__}: {gone} is no more, so remove its probe from {__name__}"


def test_no_method_of_the_store_can_be_called_without_a_scope() -> None:
    """Leaving the scope out is an error; there is no default that could mean everybody."""
    for name in map(_method_of, STORE_PROBES):
        parameters = inspect.signature(getattr(Store, name)).parameters
        key = "tenant_id" if name in TENANT_WIDE else "scope"
        assert key in parameters, f"Store.{name} takes no {key}"
        assert parameters[key].kind is inspect.Parameter.KEYWORD_ONLY, f"Store.{name}: {key} has a position"
        assert parameters[key].default is inspect.Parameter.empty, f"Store.{name}: {key} has a default"


def test_no_method_of_users_can_be_called_without_a_tenant() -> None:
    """System data are meant only where None is written out."""
    for name in USERS_PROBES:
        tenant = inspect.signature(getattr(Users, name)).parameters["tenant_id"]
        assert tenant.default is inspect.Parameter.empty, f"Users.{name}: tenant_id has a default"


@pytest.mark.parametrize(("subject", "method"), METHODS)
@pytest.mark.parametrize("has_twin", [False, True], ids=["empty", "twin"])
def test_stranger_cannot_tell_that_others_exist(
    opened: OpenStore, subject: type, method: str, *, has_twin: bool
) -> None:
    """Answers, errors and what is left behind are the same as where nobody else ever was.

    The stranger keeps nothing, or a twin of the others' data under the very same ids.
    """
    for place in _places(opened, method, has_twin=has_twin):
        # New worlds each time, so that the stranger is new too.
        world, control = _worlds(opened)[place], _worlds(opened)[place]
        opened.run(_compare(opened, (subject, method), world, control.stranger, has_twin=has_twin))


@pytest.mark.parametrize(("subject", "method"), METHODS)
def test_probe_sees_the_data_when_they_are_its_own(opened: OpenStore, subject: type, method: str) -> None:
    """A probe that found nothing anywhere would prove nothing."""
    owner, control = Scope(1, opened.fresh(), "t"), Scope(1, opened.fresh(), "t")
    loot = opened.run(_fill(opened.store, owner, "secret"))
    known = opened.run(_numbers(opened.store, owner))
    own = opened.run(_outcome(_call(opened.store, (subject, method), owner, loot)))
    nothing = opened.run(_outcome(_call(opened.store, (subject, method), control, Loot(10**15, loot.lines))))
    is_alike = _masked(own, owner, known) == _masked(nothing, control, [])
    assert is_alike == (method in ALIKE)


@pytest.mark.parametrize("who", ["other", "neighbour"])
@pytest.mark.parametrize("place", range(len(TENANTS)), ids=TENANTS)
def test_same_ids_are_fresh_things_when_somebody_else_has_them(
    opened: OpenStore, place: int, who: str
) -> None:
    """Message and thread ids that another tenant or user took are free."""
    world = _worlds(opened)[place]
    first, second = world.neighbour if who == "neighbour" else world.others[0], world.stranger
    taken = opened.run(opened.store.append_turn(_turn("secret"), scope=first))
    places = opened.run(opened.store.append_turn(_turn("mine"), scope=second))
    assert [place.position for place in places] == [1, 2, 3, 4, 5]
    assert min(place.number for place in places) > max(place.number for place in taken)
    messages = opened.run(opened.store.last_messages(None, scope=second))
    assert [message.text for message in messages if message.text] == [f"mine {word}" for word in WORDS]
    thread = opened.run(opened.store.create_thread(title="ignored", scope=second))
    assert (thread.title, thread.message_count) == ("New Conversation", 5)


def _places(opened: OpenStore, method: str, *, has_twin: bool) -> Sequence[int]:
    """Return which of `TENANTS` the stranger is: each in turn in the long tests, and else just one.

    It is another one for the next method, with a twin, and on the other engine, so that each has its turn.
    """
    if IS_LONG:
        return range(len(TENANTS))
    first = [*STORE_PROBES, *USERS_PROBES].index(method) + (opened.engine == "memory")
    return [(first + has_twin) % len(TENANTS)]


def _method_of(probe: str) -> str:
    return probe.partition(":")[0]


async def _compare(
    opened: OpenStore, method: tuple[type, str], world: World, control: Scope, *, has_twin: bool
) -> None:
    """Call a method where others keep something and where nobody does, and compare."""
    store = opened.store
    owners = [*world.others] if method[1] in TENANT_WIDE else [*world.others, world.neighbour]
    loots = [await _fill(store, owner, "secret") for owner in owners]
    before = [await _snapshot(store, owner) for owner in owners]
    opened.clock.time += timedelta(hours=1)
    loot = loots[has_twin]
    seen = await _try(store, method, world.stranger, loot, has_twin=has_twin)
    expected = await _try(store, method, control, Loot(10**15, loot.lines), has_twin=has_twin)
    assert seen == expected, f"{world.stranger} can tell that others exist"
    for owner, kept in zip(owners, before, strict=True):
        assert await _snapshot(store, owner) == kept, f"{world.stranger} changed something of {owner}"


async def _fill(store: Store, scope: Scope, text: str) -> Loot:
    run = [Message("assistant", f"{text} run", id="run:0000")]
    await store.append_turn(run, run_id="run", scope=scope.with_thread("runs"))
    places = await store.append_turn(_turn(text), scope=scope)
    await store.update_thread(title=text, metadata={"about": text}, scope=scope)
    await store.set_memory("k", {"about": text}, scope=scope)
    await store.set_state(text, scope=scope)
    for place in (scope, scope.with_thread(None)):
        await store.update_working_memory({"about": text}, scope=place)
    await store.update_working_memory({"more": text}, scope=scope)
    await store.add_event(text, {"about": text}, run_id="run", scope=scope)
    return Loot(places[0].number, await readings.export(store, scope))


async def _snapshot(store: Store, scope: Scope) -> tuple[object, ...]:
    return await _state(store, scope), await store.epoch(scope=scope)


async def _state(store: Store, scope: Scope) -> tuple[object, ...]:
    """Return all rows of a user, and two readings that show what else the rows do: counts and units."""
    rows, thread = await readings.rows_of_all(store, [scope]), await store.get_thread(scope=scope)
    return rows, thread, await readings.facts(store.last_messages(1, scope=scope))


async def _try(
    store: Store, method: tuple[type, str], scope: Scope, loot: Loot, *, has_twin: bool
) -> tuple[str, str]:
    """Call a method as a stranger and return what came of it, with ids and numbers that differ masked."""
    if has_twin:
        await _fill(store, scope, "twin")
    known = await _numbers(store, scope)
    outcome = await _outcome(_call(store, method, scope, loot))
    left = await _state(store, scope)
    return _masked(outcome, scope, known), _masked(left, scope, known)


async def _numbers(store: Store, scope: Scope) -> list[int]:
    messages = [message.number or 0 for message in await store.last_messages(None, scope=scope)]
    messages += [entry.number for entry in await store.list_memory(scope=scope)]
    return messages + [event.number for event in await store.list_events(scope=scope)]


def _call(store: Store, method: tuple[type, str], scope: Scope, loot: Loot) -> Answer:
    subject, name = method
    if subject is Store:
        return STORE_PROBES[name](store, scope, loot)
    return USERS_PROBES[name](Users(store), scope.user_id, scope.tenant_id, loot)


async def _outcome(answer: Answer) -> object:
    try:
        if isinstance(answer, AsyncIterator):
            return [line async for line in answer]
        value = await answer
    except RecollectError as error:
        return type(error).__name__, str(error)
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [facts_of(item) if isinstance(item, Message) else item for item in items]


def _masked(value: object, scope: Scope, known: list[int]) -> str:
    """Write a value without what differs from call to call: the user, times, made-up ids and numbers.

    The stranger's own numbers are told apart; any other number of four digits or more is only new.
    """
    names = {str(number): f"own {index}" for index, number in enumerate(known)}
    text = _VARYING.sub("varies", repr(value).replace(scope.user_id, "the user"))
    return re.sub(r"\b\d{4,}\b", lambda found: names.get(found[0], "new"), text)
