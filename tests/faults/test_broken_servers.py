"""PostgreSQL servers that stop, refuse or only read: our errors, and no store has to be opened again."""

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import pytest
from psycopg_pool.base import AttemptWithBackoff
from tests.faults.servers import OwnServer
from tests.faults.turns import SCOPES, USERS, Ack, check_whole, make_turn
from tests.support.databases import run_sql
from tests.support.waiting import GENEROUS

from recollect import Store, open_store
from recollect.errors import StorageReadOnlyError, StorageUnavailableError, StoreMisuseError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.faults,
    pytest.mark.postgres,
    pytest.mark.xdist_group("own_server"),
]

SECRET = "hunter2"


@pytest.mark.usefixtures("impatient_pools")
async def test_calls_fail_and_work_again_when_the_server_was_away(
    own_server: OwnServer, own_url: str
) -> None:
    """While the server is down a call says so in time; afterwards the same store works."""
    rng = random.Random(1)
    async with open_store(own_url, pool_size=3) as store:
        acks = [await make_turn(rng, "before").write(store)]
        own_server.stop_at_once()
        async with asyncio.timeout(GENEROUS):
            outcomes = await asyncio.gather(
                make_turn(rng, "lost").write(store),
                store.last_messages(1, scope=SCOPES[0]),
                return_exceptions=True,
            )
        assert [type(outcome) for outcome in outcomes] == [StorageUnavailableError] * 2
        own_server.start()
        acks.append(await _first_success(store, rng))
        await check_whole(store, acks)


async def test_first_call_works_when_the_server_was_restarted_meanwhile(
    own_server: OwnServer, own_url: str
) -> None:
    """Connections that died unnoticed, however many, cost no caller an error."""
    async with open_store(own_url, pool_size=5) as store:
        await _use_all_connections(store)
        own_server.stop_at_once()
        own_server.start()
        ack = await make_turn(random.Random(2), "first").write(store)
        assert await check_whole(store, [ack]) == 1


@pytest.mark.usefixtures("impatient_pools")
async def test_store_works_soon_when_the_server_was_away_for_long(
    own_server: OwnServer, own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the outage was, the wait after it is short: a new caller tries at once."""
    # A pool tries less and less often. Here the third try would come minutes after the second.
    monkeypatch.setattr(AttemptWithBackoff, "DELAY_BACKOFF", 300.0)
    rng = random.Random(3)
    async with open_store(own_url, pool_size=1) as store:
        await make_turn(rng, "before").write(store)
        own_server.stop_at_once()
        for number in range(3):
            with pytest.raises(StorageUnavailableError):
                await make_turn(rng, f"lost-{number}").write(store)
        own_server.start()
        await _first_success(store, rng)


async def test_writes_are_refused_when_the_database_only_reads(own_url: str) -> None:
    """Reading works, a write says that the server is read-only, and so does making the schema."""
    async with open_store(own_url) as store:
        ack = await make_turn(random.Random(4), "before").write(store)
    run_sql(own_url, "ALTER DATABASE faults SET default_transaction_read_only = on")
    async with open_store(own_url) as store:
        with pytest.raises(StorageReadOnlyError, match="read-only"):
            await make_turn(random.Random(5), "refused").write(store)
        assert await check_whole(store, [ack]) == 1
    run_sql(own_url, "SET default_transaction_read_only = off", "DROP SCHEMA recollect CASCADE")
    with pytest.raises(StorageReadOnlyError, match="read-only"):
        await open_store(own_url)


async def test_opening_fails_clearly_when_role_or_database_are_wrong(own_url: str) -> None:
    """The server's own words are passed on: which role or which database it does not know."""
    for url, word in (
        (_with(own_url, user="nobody_here"), "nobody_here"),
        (_with(own_url, path="/nowhere"), "nowhere"),
    ):
        with pytest.raises(StorageUnavailableError, match=word):
            await open_store(url)


async def test_opening_fails_without_the_password_when_it_is_wrong(
    own_server: OwnServer, own_url: str
) -> None:
    """The error says that the password was refused, and repeats neither the wrong nor the right one."""
    run_sql(own_url, "DROP ROLE IF EXISTS carol", f"CREATE ROLE carol LOGIN PASSWORD '{SECRET}-right'")
    with (
        _passwords_required(own_server, own_url),
        pytest.raises(StorageUnavailableError, match="password") as caught,
    ):
        await open_store(_with(own_url, user=f"carol:{SECRET}-wrong"))
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    run_sql(own_url, "DROP ROLE carol")


async def test_calls_work_when_sessions_were_ended_by_the_server(own_url: str) -> None:
    """A call that meets ended sessions succeeds on a new one, and the store goes on."""
    rng = random.Random(6)
    acks: list[Ack] = []
    async with open_store(own_url, pool_size=4) as store:
        for number in range(10):
            acks += await asyncio.gather(*(make_turn(rng, f"{number}-{n}").write(store) for n in range(4)))
            run_sql(
                own_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
        acks.append(await make_turn(rng, "last").write(store))
        assert await check_whole(store, acks) == len(acks)


async def test_waiting_readers_are_told_when_the_store_is_closed(own_url: str) -> None:
    """Calls under way when the store is closed end in a value or in our error, never in a driver's."""
    rng = random.Random(7)
    store = await open_store(own_url, pool_size=2)
    calls = [make_turn(rng, f"{number}").write(store) for number in range(20)]
    reads = [store.user_history(scope=scope) for scope in USERS * 5]
    tasks = [asyncio.ensure_future(call) for call in (*calls, *reads)]
    await asyncio.sleep(0.01)
    await store.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, Ack) for outcome in outcomes[:20]), "a write that had begun was lost"
    assert all(isinstance(outcome, list | StoreMisuseError) for outcome in outcomes[20:])


async def _use_all_connections(store: Store) -> None:
    """Have so many calls at once that the pool grows to its full size."""
    for _ in range(3):
        await asyncio.gather(*(store.user_history(scope=scope) for scope in USERS * 40))


async def _first_success(store: Store, rng: random.Random) -> Ack:
    async with asyncio.timeout(GENEROUS):
        for number in count():
            try:
                return await make_turn(rng, f"after-{number}").write(store)
            except StorageUnavailableError:
                continue
    raise AssertionError("counting ended")


@contextmanager
def _passwords_required(server: OwnServer, url: str) -> Generator[None]:
    """Have the server ask one role for its password, and trust all others as before."""
    path = server.folder / "pg_hba.conf"
    before = path.read_text()
    path.write_text(f"local all carol scram-sha-256\n{before}")
    try:
        run_sql(url, "SELECT pg_reload_conf()")
        yield
    finally:
        path.write_text(before)
        run_sql(url, "SELECT pg_reload_conf()")


def _with(url: str, *, user: str | None = None, path: str | None = None) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{user}@{host}" if user else parts.netloc
    return urlunsplit(parts._replace(netloc=netloc, path=path or parts.path))
