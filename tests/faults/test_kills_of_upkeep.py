"""A process is killed while it erases, prunes, imports, reindexes or converts: all is done, or nothing."""

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import apsw
import pytest
from tests.faults.children import Child
from tests.support.embedders import Words
from tests.support.profiles import IS_LONG

from recollect import Message, Scope, Store, open_store
from recollect.errors import OldDatabaseError
from recollect.messages import now
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import reindex
from recollect.storage.opening import convert_store

if TYPE_CHECKING:
    from recollect.storage.sqlite.connection import Database

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

Work: TypeAlias = Callable[[Path], Coroutine[Any, Any, None]]
Check: TypeAlias = Callable[[Path], Coroutine[Any, Any, int]]

KILLS = 100 if IS_LONG else 3
MESSAGES = 600
ANN, BOB, EVE = (Scope(1, name, "t") for name in ("ann", "bob", "eve"))
OLD_LAYOUT = Path(__file__).parents[1] / "storage" / "old_layout" / "sqlite.sql"
OLD_ROWS = """
INSERT INTO users VALUES ('ann', 1, 1);
INSERT INTO threads VALUES ('ann', 1, 'default', 'default', 't', 'T', NULL, 1, 1, 1, 600, 601);
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 600)
INSERT INTO messages (number, user_id, tenant_id, app_id, project_id, thread_id, position, unit, message_id,
    role, origin, created_at, text, term_hashes, term_counts)
SELECT n, 'ann', 1, 'default', 'default', 't', n, n, 'm' || n,
    'user', 'input', 1, 'word ' || n, x'', x'' FROM n;
UPDATE counters SET value = 600;
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the messages of two users, all with search rows of an old model."""
    path = tmp_path_factory.mktemp("kills") / "full.db"
    asyncio.run(_fill(path))
    return path


async def _fill(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        for scope in (ANN, BOB):
            messages = [Message("user", f"word {number} " * 8) for number in range(MESSAGES)]
            await store.append_turn(messages, scope=scope)
        await _reindex(store, "old")


async def _reindex(store: Store, model: str) -> None:
    await reindex(store, as_embedder(Words(model)), ["ann", "bob"], tenant_id=1, show=_be_silent)


def _be_silent(_: int, __: int) -> None: ...


async def _erase(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        await store.erase(scope=ANN)


async def _prune(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        await store.prune(now(), scope=ANN)


async def _import(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        lines = [line async for line in store.export(scope=BOB)]
        await store.import_(lines, scope=EVE)


async def _embed_again(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        await _reindex(store, "new")


async def _convert(path: Path) -> None:
    await convert_store(f"sqlite:///{path}")


def work_until_killed(line: Connection, work: Work, path: Path) -> None:
    """Do some upkeep, and report its beginning and its end."""

    async def run() -> None:
        line.send_bytes(b"begun")
        await work(path)
        line.send_bytes(b"done")

    asyncio.run(run())


async def _check_gone_or_whole(path: Path) -> int:
    """Ann has all messages with all search rows, or none of either; bob has all."""
    async with open_store(f"sqlite:///{path}") as store:
        counts = [await store.count_user_history(scope=scope) for scope in (ANN, BOB)]
        assert counts in ([0, MESSAGES], [MESSAGES, MESSAGES])
        for scope, count in zip((ANN, BOB), counts, strict=True):
            found = await store.search_rows(scope=scope)
            assert len(found.rows) == len({vector.number for vector in found.vectors}) == count
    assert _count_orphans(path) == 0
    return counts[0]


async def _check_imported(path: Path) -> int:
    """Eve has nothing, or all that bob has."""
    async with open_store(f"sqlite:///{path}") as store:
        texts = [[m.text for m in await store.last_messages(None, scope=scope)] for scope in (BOB, EVE)]
        assert texts[1] in ([], texts[0])
        return len(texts[1])


async def _check_indexed(path: Path) -> int:
    """Every message can be found, and a further run ends with vectors of one model alone."""
    async with open_store(f"sqlite:///{path}") as store:
        before = [vector.model_id for vector in (await store.search_rows(scope=ANN)).vectors]
        assert len(before) == MESSAGES
        await _reindex(store, "new")
        after = {vector.model_id for vector in (await store.search_rows(scope=ANN)).vectors}
        assert after == {"new"}
        return before.count("new")


async def _check_converted(path: Path) -> int:
    """The file has the old layout or the new one, whole; a further run converts it."""
    try:
        async with open_store(f"sqlite:///{path}"):
            was_old = False
    except OldDatabaseError:
        was_old = True
    assert await convert_store(f"sqlite:///{path}") == was_old
    async with open_store(f"sqlite:///{path}") as store:
        found = await store.last_messages(None, scope=ANN)
        assert [(message.number, message.text) for message in found] == [
            (number, f"word {number}") for number in range(1, MESSAGES + 1)
        ]
    return int(was_old)


def _count_orphans(path: Path) -> int:
    connection = cast("Database", apsw.Connection(str(path)))
    query = "SELECT count(*) FROM search_rows WHERE place >> 8 NOT IN (SELECT number FROM messages)"
    count = connection.execute(query).fetchall()[0][0]
    connection.close()
    return count


@pytest.mark.parametrize(
    ("work", "check"),
    [
        (_erase, _check_gone_or_whole),
        (_prune, _check_gone_or_whole),
        (_import, _check_imported),
        (_embed_again, _check_indexed),
        (_convert, _check_converted),
    ],
    ids=["erase", "prune", "import", "reindex", "convert"],
)
def test_nothing_is_half_done_when_upkeep_is_killed(
    full: Path,
    tmp_path: Path,
    work: Work,
    check: Check,
) -> None:
    """At any moment: the file is whole, says one or the other, and the same command works afterwards."""
    rng = random.Random(work.__name__)
    source = full
    if work is _convert:
        source = tmp_path / "old.db"
        connection = cast("Database", apsw.Connection(str(source)))
        connection.execute(OLD_LAYOUT.read_text("utf-8") + OLD_ROWS).fetchall()
        connection.close()
    longest = 0.0
    for kill in range(KILLS):
        path = tmp_path / f"{kill}.db"
        shutil.copy(source, path)
        with Child(work_until_killed, work, path) as child:
            assert child.hear() == b"begun"
            started = time.monotonic()
            if kill == 0:  # the first one measures how long it takes, and is killed when it is done
                assert child.hear() == b"done"
                longest = time.monotonic() - started
            else:
                time.sleep(rng.uniform(0, longest))
            child.kill()
        asyncio.run(check(path))
        for file in tmp_path.glob(f"{kill}.db*"):
            file.unlink()
