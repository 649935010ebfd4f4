"""Databases of the layout before the first release: refused, then converted once, with nothing lost."""

from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, cast

import apsw
import psycopg
import pytest

from recollect import Scope, open_store
from recollect.errors import OldDatabaseError
from recollect.storage.opening import convert_store

if TYPE_CHECKING:
    from recollect.storage.sqlite.connection import Database

pytestmark = pytest.mark.anyio

_LAYOUTS = Path(__file__).parent / "old_layout"
_ROWS = """
INSERT INTO {0}users VALUES ('ada', 0, 3), ('ada', 7, 4);
INSERT INTO {0}threads VALUES
    ('ada', 0, 'default', 'default', 't', 'System', NULL, 1, 2, 5, 1, 2),
    ('ada', 7, 'default', 'default', 't', 'Trip', '{{"a":1}}', 1, 2, 6, 2, 9);
INSERT INTO {0}messages (number, user_id, tenant_id, app_id, project_id, thread_id, position, unit,
    message_id, run_id, role, origin, created_at, text, parts, metadata, term_hashes, term_counts) VALUES
    (2, 'ada', 0, 'default', 'default', 't', 1, 1, 'm', NULL, 'user', 'input', 5, 'of nobody', NULL, NULL,
        {1}, {1}),
    (5, 'ada', 7, 'default', 'default', 't', 3, 3, 'm', 'r', 'user', 'input', 5, 'Where?', NULL,
        '{{"name":"Zoe"}}', {2}, {3}),
    (9, 'ada', 7, 'default', 'default', 't', 8, 8, 'n', 'r', 'assistant', 'response', 6, 'Here', NULL, NULL,
        {1}, {1});
INSERT INTO {0}vectors VALUES (11, 'ada', 7, 5, 'model', 1, {4}, {2});
INSERT INTO {0}user_memory VALUES ('ada', 7, 'home', 10, '{{"city":"Lisbon"}}', 4);
INSERT INTO {0}user_state VALUES ('ada', 7, 'travelling', 4);
INSERT INTO {0}working_memory VALUES ('ada', 7, '', '', '', 1, '{{"n":1}}', NULL, 4);
INSERT INTO {0}events (user_id, tenant_id, number, app_id, project_id, thread_id, name, run_id, payload,
    created_at) VALUES ('ada', 7, 12, 'default', 'default', 't', 'e', NULL, '{{}}', 4);
"""


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest) -> str:
    """A database of the old layout with rows of two tenants, on each engine in turn."""
    engine = cast("str", request.param)
    schema = (_LAYOUTS / f"{engine}.sql").read_text("utf-8")
    if engine == "sqlite":
        path = cast("Path", request.getfixturevalue("tmp_path")) / "old.db"
        connection = cast("Database", apsw.Connection(str(path)))
        blobs = ("x''", "x'01020304'", "x'01'", f"x'{'00' * 16}'")
        rows = _ROWS.format("", *blobs) + "UPDATE counters SET value = 12;"  # noqa: S608 - our own constants
        connection.execute(schema + rows).fetchall()
        connection.close()
        return f"sqlite:///{path}"
    url = cast("str", request.getfixturevalue("new_postgres_url"))
    blobs = ("''", "'\\x01020304'", "'\\x01'", f"'\\x{'00' * 16}'")
    rows = _ROWS.format("recollect.", *blobs) + "SELECT setval('recollect.numbers', 12);"
    with psycopg.connect(url) as connection:
        connection.execute(cast("LiteralString", schema + rows))
    return url


async def test_old_database_is_refused_when_it_is_opened(old_url: str) -> None:
    """The error names the command that converts it, and nothing is changed."""
    with pytest.raises(OldDatabaseError, match="recollect db migrate"):
        await open_store(old_url)
    assert await convert_store(old_url)


async def test_everything_is_kept_when_an_old_database_is_converted(old_url: str) -> None:
    """Ids, numbers, positions, vectors and values come through, for each tenant its own."""
    assert await convert_store(old_url)
    assert not await convert_store(old_url)
    async with open_store(old_url) as store:
        scope = Scope(7, "ada", "t")
        found = await store.last_messages(None, scope=scope)
        assert [(m.id, m.number, m.position, m.text) for m in found] == [
            ("m", 5, 3, "Where?"),
            ("n", 9, 8, "Here"),
        ]
        assert (found[0].metadata, found[0].run_id, found[1].role) == ({"name": "Zoe"}, "r", "assistant")
        (other,) = await store.last_messages(None, scope=Scope(None, "ada", "t"))
        assert other.text == "of nobody"
        changes = await store.search_rows(scope=scope)
        # The terms are of an earlier analyser, so the messages are analysed again.
        assert (changes.epoch, [row.text for row in changes.rows]) == (4, ["Where?", "Here"])
        assert [(v.number, v.segment, v.vector) for v in changes.vectors] == [
            (5, 0, b"\1\2"),
            (5, 1, b"\3\4"),
        ]
        entry = await store.get_memory("home", scope=scope)
        assert entry is not None
        assert (entry.number, entry.value) == (10, {"city": "Lisbon"})
        state = await store.get_state(scope=scope)
        assert state is not None
        assert state.mode == "travelling"
        assert (await store.get_working_memory(scope=scope.with_thread(None))).to_dict() == {"n": 1}
        assert [event.number for event in await store.list_events(scope=scope)] == [12]
        thread = await store.get_thread(scope=scope)
        assert thread is not None
        assert (thread.title, thread.message_count, thread.metadata) == ("Trip", 2, {"a": 1})
        (user,) = await store.list_users(tenant_id=7)
        assert (user.messages, user.bytes) == (2, len("WhereHere?") + len('{"name":"Zoe"}'))
        assert (await store.append_turn([other.replace(id="new")], scope=scope))[0].number > 12


async def test_database_of_fewer_migrations_is_not_converted(old_url: str) -> None:
    """The error says what to do with it, and nothing is changed."""
    if old_url.startswith("sqlite"):
        connection = cast("Database", apsw.Connection(old_url.removeprefix("sqlite:///")))
        connection.execute("DELETE FROM recollect_migrations WHERE number = 5").fetchall()
        connection.close()
    else:
        with psycopg.connect(old_url) as server:
            server.execute("DELETE FROM recollect.migrations WHERE number = 5")
    with pytest.raises(OldDatabaseError, match=r"4 of the 5 migrations .* export its users"):
        await convert_store(old_url)
