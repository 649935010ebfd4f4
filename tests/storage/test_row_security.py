"""Row-level security, a second line of defence on PostgreSQL, for a role that is no owner and no superuser.

Also what both engines owe to every table that holds a user's data, and the lock that puts the writes of one
user in order.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import errors, sql
from tests.storage import readings
from tests.support.tenants import HOSTILE_TENANTS

from recollect import ConflictError, Message, Scope, Store, ToolCall, ToolResult, open_store
from recollect.scope import SYSTEM_TENANT
from recollect.storage.postgres.connection import open_pool
from recollect.storage.postgres.engine import PostgresEngine
from recollect.storage.records import MessageTerms, Placement
from recollect.storage.sql import load_statements
from recollect.storage.sqlite.connection import prepare
from recollect.storage.users import KINDS

pytestmark = pytest.mark.anyio

USER_TABLES = {*KINDS, "users"}
TENANTS = (None, 1, 2)

GRANTS: tuple[LiteralString, ...] = (
    "GRANT USAGE ON SCHEMA recollect TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA recollect TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA recollect TO {role}",
)

TABLES_WITH: LiteralString = """
    SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
        EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polroles = '{0}')
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'recollect'::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = %s
    ORDER BY 1
"""

SET_TENANT: LiteralString = "SELECT set_config('recollect.tenant_id', %s, true)"

WAITING: LiteralString = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@contextmanager
def _role(admin: str, *grants: LiteralString) -> Generator[str]:
    """Provide the URL of a database as a new role that has nothing but the grants."""
    name, password = f"recollect_{secrets.token_hex(6)}", secrets.token_hex(8)
    role, database = sql.Identifier(name), sql.Identifier(urlsplit(admin).path[1:])
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, password))
        try:
            for grant in grants:
                connection.execute(sql.SQL(grant).format(role=role, database=database))
            parts = urlsplit(admin)
            host = parts.netloc.rpartition("@")[2]
            yield urlunsplit(parts._replace(netloc=f"{name}:{password}@{host}"))
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
async def filled_url(postgres_url: str) -> str:
    """A database in which one user of each of three tenants keeps something of every kind."""
    async with open_store(postgres_url) as store:
        for tenant in TENANTS:
            await _fill(store, Scope(tenant, "ann", "t"))
    return postgres_url


@pytest.fixture
async def plain_url(filled_url: str) -> AsyncGenerator[str]:
    """The same database for a role that may only read and write rows."""
    with _role(filled_url, *GRANTS) as url:
        yield url


async def _fill(store: Store, scope: Scope) -> None:
    turn = [
        Message("user", "hello", id="m1"),
        Message("assistant", [ToolCall("c", "look")], id="m2"),
        Message("tool", [ToolResult("c", "look", 1)], id="m3"),
    ]
    places = await store.append_turn(turn, scope=scope)
    terms = [MessageTerms(places[0].number, asks=False, term_hashes=b"", term_counts=b"", vectors=[bytes(4)])]
    epoch = await store.pin_erase_epoch(scope=scope)
    await store.put_search_rows(terms, model_id="m", erase_epoch=epoch, scope=scope)
    await store.set_memory("k", {"tenant": scope.tenant_id}, scope=scope)
    await store.set_state("calm", scope=scope)
    await store.update_working_memory({"tenant": str(scope.tenant_id)}, scope=scope)
    await store.add_event("recalled", {"tenant": scope.tenant_id}, scope=scope)


@contextmanager
def _under(url: str, tenant: str | None) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Open a connection in a transaction with a tenant's key set as the store sets it, or with none."""
    with psycopg.connect(url) as connection:
        if tenant is not None:
            connection.execute(SET_TENANT, (tenant,))
        yield connection
        connection.rollback()


def _on_table(statement: LiteralString, table: str) -> sql.Composed:
    return sql.SQL(statement).format(table=sql.Identifier("recollect", table))


def _tables_with(url: str, column: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(TABLES_WITH, (column,)).fetchall()


# What every table owes


@pytest.mark.postgres
async def test_every_table_of_a_tenant_is_guarded(filled_url: str) -> None:
    """Each table with a tenant has row-level security enabled, forced, and a policy for all roles."""
    tables = _tables_with(filled_url, "tenant_id")
    unguarded = [name for name, *guards in tables if guards != [True, True, True]]
    assert not unguarded, f"ENABLE and FORCE ROW LEVEL SECURITY and CREATE POLICY for {unguarded}"
    assert {name for name, *_ in tables} == {name for name, *_ in _tables_with(filled_url, "user_id")}


@pytest.mark.postgres
async def test_every_table_of_a_user_is_erased_on_postgresql(filled_url: str) -> None:
    """A new table with a user in it must be added to the kinds that `erase` removes."""
    assert {name for name, *_ in _tables_with(filled_url, "user_id")} == USER_TABLES


def test_every_table_of_a_user_is_erased_on_sqlite() -> None:
    """A new table must be added to the kinds that `erase` removes, or go with a user's row as `apps` does."""
    connection = prepare(":memory:")
    try:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    finally:
        connection.close()
    of_nobody = {"counters", "recollect_migrations", "sqlite_sequence"}
    assert {name for (name,) in found} == USER_TABLES | {"apps"} | of_nobody


# What a plain role can and cannot do


@pytest.mark.postgres
async def test_whole_store_works_when_opened_as_a_plain_role(plain_url: str) -> None:
    """Reading, writing, removing, export and import need no more than privileges on rows."""
    ann, eve = Scope(1, "ann", "t"), Scope(None, "eve")
    async with open_store(plain_url) as store:
        lines = await readings.export(store, ann)
        assert await store.import_(lines, scope=eve) == {
            "threads": 1,
            "messages": 3,
            "user_memory": 1,
            "user_state": 1,
            "working_memory": 1,
            "events": 1,
        }
        assert await readings.export(store, eve) != lines
        assert (await readings.export(store, eve))[1:] == lines[1:]
        places = await store.append_turn([Message("user", "more", id="m4")], scope=ann)
        assert [message.id for message in await store.last_messages(1, scope=ann)] == ["m4"]
        assert (await store.update_thread(title="new", scope=ann)).message_count == 4
        assert await store.delete_message_number(places[0].number, tenant_id=1)
        assert await store.delete_messages(["m3"], scope=ann) == 2
        assert await store.delete_memory("k", scope=ann)
        assert await store.clear_history(scope=eve) == 1
        assert (await store.erase(scope=ann)).total == 6
        assert await store.count_user_history(scope=Scope(2, "ann")) == 1


@pytest.mark.postgres
async def test_plain_role_cannot_change_the_tables(plain_url: str) -> None:
    """The role of the store could not switch row-level security off, even if it tried."""
    for statement in (
        "ALTER TABLE recollect.messages DISABLE ROW LEVEL SECURITY",
        "DROP POLICY one_tenant ON recollect.messages",
        "CREATE TABLE recollect.more (user_id text)",
        "TRUNCATE recollect.messages",
    ):
        with psycopg.connect(plain_url) as connection, pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement)


@pytest.mark.postgres
async def test_no_row_exists_when_no_tenant_is_set(plain_url: str, filled_url: str) -> None:
    """A statement that forgot its tenant finds every table empty, though none is."""
    for table in sorted(USER_TABLES):
        count = _on_table("SELECT count(*) FROM {table}", table)
        with _under(plain_url, None) as connection:
            assert connection.execute(count).fetchone() == (0,), table
        with psycopg.connect(filled_url) as connection:
            assert connection.execute(count).fetchone() != (0,), table


@pytest.mark.postgres
async def test_rows_of_the_tenant_none_are_gone_when_the_transaction_has_ended(plain_url: str) -> None:
    """PostgreSQL then has an empty text in place of the tenant, and that is nobody's key."""
    for ended in ("COMMIT", "ROLLBACK"):
        with psycopg.connect(plain_url, autocommit=True) as connection:
            connection.execute("BEGIN")
            connection.execute(SET_TENANT, (SYSTEM_TENANT,))
            assert connection.execute("SELECT DISTINCT tenant_id FROM recollect.messages").fetchall() == [
                (SYSTEM_TENANT,)
            ]
            connection.execute(cast("LiteralString", ended))
            left = connection.execute("SELECT current_setting('recollect.tenant_id', true)").fetchone()
            assert left == ("",)
            for table in sorted(USER_TABLES):
                count = _on_table("SELECT count(*) FROM {table}", table)
                assert connection.execute(count).fetchone() == (0,), table


@pytest.mark.postgres
async def test_policy_compares_the_whole_text_of_a_tenant(plain_url: str) -> None:
    """A plain role that sets any text sees the rows of that tenant, and no others."""
    async with open_store(plain_url) as store:
        for tenant in HOSTILE_TENANTS:
            await _fill(store, Scope(tenant, "ann", "t"))
    for tenant in HOSTILE_TENANTS:
        with _under(plain_url, tenant) as connection:
            for table in sorted(USER_TABLES):
                statement = _on_table("SELECT DISTINCT tenant_id FROM {table}", table)
                assert connection.execute(statement).fetchall() == [(tenant,)], table


@pytest.mark.postgres
@pytest.mark.parametrize("tenant", [SYSTEM_TENANT, "1", "2"])
async def test_only_rows_of_the_tenant_exist_when_it_is_set(plain_url: str, tenant: str) -> None:
    """A statement that forgot its WHERE clause still sees one tenant only."""
    for table in sorted(USER_TABLES):
        with _under(plain_url, tenant) as connection:
            rows = connection.execute(_on_table("SELECT DISTINCT tenant_id FROM {table}", table)).fetchall()
            assert rows == [(tenant,)], table


@pytest.mark.postgres
async def test_rows_of_another_tenant_cannot_be_changed(plain_url: str) -> None:
    """Updates and deletes of another tenant's rows find nothing to change."""
    for table in sorted(USER_TABLES):
        with _under(plain_url, "1") as connection:
            update = _on_table("UPDATE {table} SET user_id = 'eve' WHERE tenant_id <> '1'", table)
            assert connection.execute(update).rowcount == 0, table
            delete = _on_table("DELETE FROM {table} WHERE tenant_id <> '1'", table)
            assert connection.execute(delete).rowcount == 0, table
            own = _on_table("DELETE FROM {table}", table)
            assert connection.execute(own).rowcount > 0, table


@pytest.mark.postgres
async def test_no_row_can_be_put_into_another_tenant(plain_url: str) -> None:
    """Neither moving a row nor adding one gets past the policy."""
    moved: LiteralString = "UPDATE {table} SET tenant_id = '2', user_id = 'eve'"
    added: LiteralString = """
        INSERT INTO {table}
        SELECT (jsonb_populate_record(old, '{{"tenant_id": "2", "user_id": "eve"}}')).* FROM {table} old
    """
    for table in sorted(USER_TABLES):
        for statement in (moved, added):
            with (
                _under(plain_url, "1") as connection,
                pytest.raises(errors.InsufficientPrivilege, match="row-level security"),
            ):
                connection.execute(_on_table(statement, table))


@pytest.mark.postgres
async def test_tenant_is_forgotten_when_a_connection_goes_back_to_the_pool(plain_url: str) -> None:
    """After a query, a write and a failed write, the next user of the connection sees no rows."""
    pool = await open_pool(plain_url, 1)
    async with Store(PostgresEngine(pool, plain_url)) as store:
        ann = Scope(1, "ann", "t")
        for used in (
            store.count_user_history(scope=ann),
            store.last_messages(1, scope=ann),
            store.append_turn([Message("user", "more")], scope=ann),
            _conflict(store, ann.with_thread("u")),
        ):
            await used
            async with pool.connection() as connection:
                cursor = await connection.execute("SELECT current_setting('recollect.tenant_id', true)")
                assert await cursor.fetchone() in ((None,), ("",))
                cursor = await connection.execute("SELECT count(*) FROM recollect.messages")
                assert await cursor.fetchone() == (0,)


async def _conflict(store: Store, scope: Scope) -> None:
    with pytest.raises(ConflictError):
        await store.append_turn([Message("user", "x", id="m1")], scope=scope)


@pytest.mark.postgres
async def test_owner_of_the_tables_is_bound_too(new_postgres_url: str) -> None:
    """FORCE holds for the role that made the tables, as long as it is no superuser."""
    with _role(new_postgres_url, "GRANT CREATE ON DATABASE {database} TO {role}") as url:
        async with open_store(url) as store:
            await _fill(store, Scope(1, "ann", "t"))
            await _fill(store, Scope(2, "ann", "t"))
            assert await store.count_user_history(scope=Scope(1, "ann")) == 1
        for tenant, expected in ((None, []), ("1", [("1",)]), ("2", [("2",)])):
            with _under(url, tenant) as connection:
                rows = connection.execute("SELECT DISTINCT tenant_id FROM recollect.messages").fetchall()
                assert rows == expected


# The lock that puts the writes of one user in order


def _lock(connection: psycopg.Connection[tuple[Any, ...]], user: str, tenant: str = "1") -> None:
    connection.execute(load_statements("postgres")["lock_user"], {"user_id": user, "tenant_id": tenant})


@pytest.mark.postgres
@pytest.mark.parametrize("user", ["ann", "nobody yet"])
async def test_second_writer_waits_when_the_first_has_the_user(plain_url: str, user: str) -> None:
    """The lock holds for a user whose row is there as for one whose row is just being made."""
    with _under(plain_url, "1") as first, _under(plain_url, "1") as second:
        second.execute("SET LOCAL lock_timeout = '100ms'")
        _lock(first, user)
        with pytest.raises(errors.LockNotAvailable):
            _lock(second, user)


@pytest.mark.postgres
@pytest.mark.parametrize(("user", "tenant"), [("bob", "1"), ("ann", "2")])
async def test_writer_does_not_wait_when_another_user_is_locked(
    plain_url: str, user: str, tenant: str
) -> None:
    """Other users, and the same user of another tenant, go on undisturbed."""
    with _under(plain_url, "1") as first, _under(plain_url, tenant) as second:
        second.execute("SET LOCAL lock_timeout = '100ms'")
        _lock(first, "ann")
        _lock(second, user, tenant)


@pytest.mark.postgres
@pytest.mark.parametrize("user", ["ann", "nobody yet"])
async def test_numbers_grow_in_the_order_of_commits(plain_url: str, filled_url: str, user: str) -> None:
    """A turn that has to wait draws its numbers after the one before it has committed."""
    async with open_store(plain_url) as store, await psycopg.AsyncConnection.connect(filled_url) as watcher:
        await watcher.set_autocommit(True)
        with _under(plain_url, "1") as first:
            _lock(first, user)
            waiting = asyncio.create_task(
                store.append_turn([Message("user", "later")], scope=Scope(1, user, "t"))
            )
            await _until_it_waits(waiting, watcher)
            (other,) = await store.append_turn([Message("user", "free")], scope=Scope(1, "bob", "t"))
            (drawn,) = first.execute("SELECT nextval('recollect.numbers')").fetchone() or (0,)
            assert not waiting.done()
            first.commit()
            (place,) = await waiting
        assert place.number > drawn > other.number


async def _until_it_waits(
    work: asyncio.Task[list[Placement]], watcher: psycopg.AsyncConnection[tuple[Any, ...]]
) -> None:
    """Ask the server again and again until the work waits for a lock, or is done without one."""
    while not work.done():
        if await (await watcher.execute(WAITING)).fetchone() == (1,):
            return
