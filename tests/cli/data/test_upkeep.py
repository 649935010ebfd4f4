"""`recollect prune` and `recollect db migrate`, run as a user would run them."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import apsw
import pytest
from tests.cli.commands import answer, invoke

from recollect import Message, Scope, open_store

if TYPE_CHECKING:
    from recollect.storage.sqlite.connection import Database

OLD = datetime.now(UTC) - timedelta(days=100)
LAYOUT = Path(__file__).parents[2] / "storage" / "old_layout" / "sqlite.sql"


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file in which two users of tenant acme have old messages, and one a new one."""

    async def fill() -> None:
        async with open_store(sqlite_url) as store:
            for user in ("ada", "bob"):
                old = [Message("user", f"old words of {user}", created_at=OLD)]
                await store.append_turn(old, scope=Scope("acme", user, "t"))
            await store.append_turn([Message("user", "new words")], scope=Scope("acme", "ada", "t"))

    asyncio.run(fill())
    return sqlite_url


def count(url: str, user: str) -> int:
    """Return how many messages a user has."""

    async def read() -> int:
        async with open_store(url) as store:
            return await store.count_user_history(scope=Scope("acme", user))

    return asyncio.run(read())


def test_prune_only_counts_unless_told_to_delete(url: str) -> None:
    """The dry run says how to delete; then old messages go and new ones stay."""
    command = ("prune", "--older-than", "90d", "--store", url, "--tenant", "acme")
    counted = invoke(*command)
    assert counted.stdout.startswith("Would delete 2 messages older than 90d and 0 expired ones, of 2 users.")
    assert "--yes" in counted.stdout
    assert (count(url, "ada"), count(url, "bob")) == (2, 1)
    assert answer(*command, "--user", "ada") == {
        "deleted": False, "old": 1, "expired": 0, "users": {"ada": {"old": 1, "expired": 0}},
    }  # fmt: skip
    assert invoke(*command, "--yes").stdout.startswith("Deleted 2 messages")
    assert (count(url, "ada"), count(url, "bob")) == (1, 0)
    assert invoke(*command).stdout.startswith("Nothing to delete: there are 0 messages")


@pytest.mark.parametrize("age", ["90", "90 days", "-1d", "٣d", "", "1.5d"])
def test_prune_says_what_an_age_looks_like(url: str, age: str) -> None:
    """Anything else is rejected before the database is read."""
    result = invoke("prune", "--older-than", age, "--store", url, "--tenant", "acme")
    assert result.exit_code != 0
    assert "12h, 90d or 8w" in result.stderr


def test_reserved_tenant_is_refused_with_the_option_that_is_meant(url: str) -> None:
    """`(system)` is how the tenant None is stored; a command has an option for it."""
    result = invoke("prune", "--older-than", "1d", "--store", url, "--tenant", "(system)")
    assert result.exit_code != 0
    assert "--system" in result.stderr


def test_old_file_is_refused_until_it_is_migrated(tmp_path: Path) -> None:
    """Every command names the one that converts it, which does nothing the second time."""
    path = tmp_path / "old.db"
    connection = cast("Database", apsw.Connection(str(path)))
    connection.execute(LAYOUT.read_text("utf-8")).fetchall()
    connection.close()
    refused = invoke("history", "--store", str(path), "--user", "ada", "--tenant", "1")
    assert refused.exit_code != 0
    assert "recollect db migrate" in refused.stderr
    assert invoke("db", "migrate", "--store", str(path)).stdout == "Converted to the present layout.\n"
    assert answer("db", "migrate", "--store", str(path)) == {"converted": False}
    assert invoke("history", "--store", str(path), "--user", "ada", "--tenant", "1").exit_code == 0
