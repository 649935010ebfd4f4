"""The way in which a tenant is set where Citus is installed, run on plain PostgreSQL."""

from collections.abc import AsyncGenerator

import pytest
from tests.support.tenants import HOSTILE_TENANTS

from recollect import Message, Scope, Store
from recollect.storage.postgres.connection import open_pool, prepare
from recollect.storage.postgres.engine import PostgresEngine

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def store(new_postgres_url: str) -> AsyncGenerator[Store]:
    """A store that sets its tenant by SET LOCAL, with the tenant as a literal."""
    assert not await prepare(new_postgres_url)  # no Citus here
    pool = await open_pool(new_postgres_url, 2, is_on_citus=True)
    async with Store(PostgresEngine(pool, new_postgres_url, is_on_citus=True)) as opened:
        yield opened


async def test_hostile_tenants_stay_apart_when_the_tenant_is_a_literal(store: Store) -> None:
    """Quotes, backslashes and SQL in a tenant are text, and nobody reads another's messages."""
    scopes = [Scope(tenant, "ada", "t") for tenant in (None, 1, *HOSTILE_TENANTS)]
    scopes = list({scope.tenant_key: scope for scope in scopes}.values())
    for number, scope in enumerate(scopes):
        await store.append_turn([Message("user", f"message {number}")], scope=scope)
    for number, scope in enumerate(scopes):
        assert [m.text for m in await store.last_messages(None, scope=scope)] == [f"message {number}"]
        assert [row.text for row in (await store.search_rows(scope=scope)).rows] == [f"message {number}"]
    assert (await store.erase(scope=scopes[-1])).counts["messages"] == 1
    assert len(await store.last_messages(None, scope=scopes[0])) == 1
