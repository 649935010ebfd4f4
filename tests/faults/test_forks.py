"""A forked child gets a clear error, can open a store of its own, and harms nothing of its parent's."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.forking import ATTEMPTS
from tests.support.waiting import GENEROUS

pytestmark = [pytest.mark.faults]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def urls(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A database for the parent and one for the child, which on a server may be the same."""
    url: str = request.getfixturevalue({"file": "sqlite_url", "postgres": "postgres_url"}[request.param])
    return url, (f"{url}-of-the-child" if request.param == "file" else url)


def test_child_is_told_to_open_its_own_when_it_uses_the_store_of_its_parent(urls: tuple[str, str]) -> None:
    """Writing, reading and closing are refused, a store of its own works, and the parent goes on."""
    seen = _run("inherited_store", urls)
    *refused, own = seen["child"]
    assert [kind for kind, _ in refused] == ["WrongOwnerError"] * 3
    assert all("fork" in text and "open another store in the child" in text for _, text in refused)
    assert own == ["value", "child"]
    assert "child" in seen["other ids"]
    assert [name for name in seen["ids"] if name != "child"] == ["before", "after"]


def test_child_is_told_to_connect_when_it_uses_the_sync_functions(urls: tuple[str, str]) -> None:
    """The sync functions are refused until the child has called connect itself."""
    seen = _run("sync_functions", urls)
    refused, own = seen["child"]
    assert refused[0] == "StoreMisuseError"
    assert "connect()" in refused[1]
    assert own == ["value", True]
    assert [text for text in seen["said"] if text != "child"] == ["before", "after"]


def test_child_is_told_to_connect_when_multiprocessing_forks(urls: tuple[str, str]) -> None:
    """The fork method of multiprocessing is treated like any other fork."""
    seen = _run("multiprocessing_fork", urls)
    refused, own = seen["child"]
    assert refused[0] == "StoreMisuseError"
    assert own == ["value", True]
    assert [text for text in seen["said"] if text != "child"] == ["before", "after"]


def test_children_can_open_stores_when_the_parent_forks_in_the_middle_of_writing(
    urls: tuple[str, str],
) -> None:
    """No child inherits a lock that nobody will ever release, and nothing that it wrote is lost."""
    seen = _run("busy_parent", urls)
    names = [f"child {number}" for number in range(ATTEMPTS)]
    assert seen["child"] == [["value", name] for name in names]
    assert seen["other ids"] == names


def test_child_is_refused_the_file_when_it_was_open_in_the_parent(sqlite_url: str) -> None:
    """SQLite would take the parent's locks for the child's, so that acknowledged writes could be lost."""
    seen = _run("same_database", (sqlite_url, sqlite_url))
    assert [kind for kind, _ in seen["child"]] == ["StoreMisuseError"] * 2
    assert all("forked" in text and "spawn" in text for _, text in seen["child"])
    assert seen["ids"] == ["before", "after"]


_BUSY = """
import os, sys, threading, time
from recollect.errors import StoreMisuseError
from recollect.storage.sqlite.connection import connect
path = sys.argv[1]
connection = connect(path)
connection.execute("CREATE TABLE t (x)")
count = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
def use():
    begun.set()
    connection.execute(count).fetchall()
begun = threading.Event()
threading.Thread(target=use, daemon=True).start()
begun.wait()
time.sleep(0.2)  # the thread is inside SQLite, and stays there
child = os.fork()
if child == 0:
    try:
        connect(path)
    except StoreMisuseError:
        os._exit(0)
    os._exit(7)
_, status = os.waitpid(child, 0)
os._exit(os.waitstatus_to_exitcode(status))
"""


def test_child_is_refused_the_file_when_a_thread_was_using_it(tmp_path: Path) -> None:
    """A connection that is in use cannot be asked for its file, so that its path is remembered."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BUSY, str(tmp_path / "busy.db")],
        check=False,
        timeout=GENEROUS,
    )
    assert done.returncode == 0


_FORKING = """
import asyncio, os, sys, threading, time
import apsw
from recollect import Message, Scope, open_store
folder, writes, seconds = sys.argv[1], sys.argv[2] == "writes", float(sys.argv[3])
begun, over = threading.Event(), threading.Event()
scope = Scope(1, "ann", "chat")
async def work():
    async with open_store(f"{folder}/parent.db") as store:
        await store.append_turn([Message("user", "word " * 600) for _ in range(20)], scope=scope)
        begun.set()
        while not over.is_set():
            if writes:
                await store.append_turn([Message("user", "word " * 2000)], scope=scope)
            else:
                await store.last_messages(20, scope=scope)
thread = threading.Thread(target=asyncio.run, args=(work(),))
thread.start()
begun.wait()
hung = 0
for number in range(100):
    child = os.fork()
    if child == 0:
        apsw.Connection(f"{folder}/{number}.db").execute("CREATE TABLE t (x)")
        os._exit(0)
    deadline = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            hung += 1
            break
        time.sleep(0.001)
over.set()
thread.join()
sys.exit(hung)
"""


@pytest.mark.parametrize("work", ["reads", "writes"])
def test_no_child_hangs_when_it_was_forked_while_the_loop_was_inside_sqlite(
    tmp_path: Path, work: str
) -> None:
    """A fork waits for the statement of an event loop's own thread: SQLite's locks are free in the child."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKING, str(tmp_path), work, "10"],
        check=False,
        timeout=GENEROUS,
    )
    assert done.returncode == 0, f"{done.returncode} children hung"


@pytest.mark.postgres
def test_child_can_open_the_database_when_it_was_open_in_the_parent(postgres_url: str) -> None:
    """A server tells its clients apart, whoever forked them, and whether the parent is still there."""
    seen = _run("same_database", (postgres_url, postgres_url))
    assert seen["child"] == [["value", "first"], ["value", "second"]]
    assert seen["ids"] == ["before", "first", "after", "second"]


def test_store_is_refused_when_used_from_another_loop_or_closed(urls: tuple[str, str]) -> None:
    """Each wrong use says what is wrong, and the store goes on working where it belongs."""
    seen = _run("other_loops", urls)
    texts = [text for _, text in seen["child"]]
    assert [kind for kind, _ in seen["child"]] == ["WrongOwnerError"] * 2 + ["StoreMisuseError"] * 3
    assert all("another event loop" in text for text in texts[:2])
    assert all("closed" in text for text in texts[2:])
    assert seen["ids"] == ["before", "after"]


def _run(case: str, urls: tuple[str, str]) -> Any:  # noqa: ANN401 - whatever the case prints
    """Run a case in a process of its own, and make sure that its files are in order afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.forking", case, *urls],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * GENEROUS,
    )
    assert done.returncode == 0, done.stderr
    for url in urls:
        _check_file(Path(url.removeprefix("sqlite:///")))
    return json.loads(done.stdout)


def _check_file(path: Path) -> None:
    if path.is_file():
        connection: Any = apsw.Connection(str(path))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
