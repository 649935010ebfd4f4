"""The sync functions: the same as the async methods, on one shared connection, from any thread."""

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import wait_until

from recollect import InvalidArgumentError, users
from recollect.errors import StorageCorruptError, StorageUnavailableError, StoreMisuseError
from recollect.users import Users

METHODS: dict[str, Callable[..., Any]] = {
    name: method
    for name, method in inspect.getmembers(Users, inspect.iscoroutinefunction)
    if not name.startswith("_") and name != "close"
}


@pytest.mark.parametrize("name", METHODS)
def test_sync_function_has_the_signature_and_docstring_of_its_method(name: str) -> None:
    """Every public coroutine of `Users` has a sync function that differs only in not being awaited."""
    function, method = getattr(users, name), METHODS[name]
    signature = inspect.signature(method)
    own = [parameter for key, parameter in signature.parameters.items() if key != "self"]
    assert inspect.signature(function) == signature.replace(parameters=own)
    assert inspect.getdoc(function) == inspect.getdoc(method)
    assert (function.__name__, function.__qualname__, function.__module__) == (name, name, users.__name__)
    assert not inspect.iscoroutinefunction(function)
    assert name in users.__all__


@pytest.mark.parametrize("fixture", ["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def test_environment_names_the_database_when_connect_was_not_called(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    """The first call of a function connects to RECOLLECT_DATABASE_URL."""
    url = request.getfixturevalue(fixture)
    code = "from recollect import users; print(users.add_message('ann', 'user', 'hi', tenant_id=1))"
    number = int(_run(code, RECOLLECT_DATABASE_URL=url))
    with users.connect(url):
        (message,) = users.get_conversation_history("ann", tenant_id=1)
    assert (message.id, message.content) == (number, "hi")


def test_given_url_takes_precedence_over_the_environment(sqlite_url: str, tmp_path: Path) -> None:
    """`connect(url)` does not look at RECOLLECT_DATABASE_URL, and `connect()` does."""
    code = f"""
from recollect import users
users.connect({sqlite_url!r})
users.set_user_state("ann", "given", tenant_id=1)
users.connect()
print(users.get_user_state("ann", tenant_id=1))
"""
    other = tmp_path / "other.db"
    assert _run(code, RECOLLECT_DATABASE_URL=f"sqlite:///{other}") == "None"
    assert other.exists()


def test_call_fails_with_advice_when_no_database_is_named() -> None:
    """Without a URL and without the variable the error says what to do."""
    code = """
from recollect import users
for call in (lambda: users.count_messages("ann", tenant_id=1), users.connect):
    try:
        call()
    except users.RecollectError as error:
        print(type(error).__name__, error)
"""
    lines = _run(code).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("InvalidArgumentError store: give a path or a URL (file.db")
        assert "RECOLLECT_DATABASE_URL" in line


def test_process_ends_by_itself_when_the_connection_was_left_open(sqlite_url: str) -> None:
    """A script that forgets to close still ends, without a word on stderr, and has kept its data."""
    code = (
        f"from recollect import users; users.connect({sqlite_url!r}); users.set_memory('ann', 'k', {{}}, 1)"
    )
    _run(code)
    with users.connect(sqlite_url):
        assert users.get_memory("ann", "k", tenant_id=1) == {}


def test_first_connection_is_closed_when_another_is_opened(sqlite_url: str, tmp_path: Path) -> None:
    """Connecting again ends the old connection, and the functions use the new one."""
    first = users.connect(sqlite_url)
    users.set_user_state("ann", "first", tenant_id=1)
    with users.connect(f"sqlite:///{tmp_path}/second.db"):
        assert users.get_user_state("ann", tenant_id=1) is None
        with pytest.raises(StoreMisuseError, match="closed"):
            first.count_messages("ann", 1)
        first.close()
        assert users.count_messages("ann", tenant_id=1) == 0


def test_old_connection_stays_when_a_new_one_cannot_be_opened(sqlite_url: str, tmp_path: Path) -> None:
    """A failed connect changes nothing."""
    no_database = tmp_path / "letter.txt"
    no_database.write_text("Dear database, " * 100)
    with users.connect(sqlite_url):
        for wrong, error in (
            ("mysql://host/db", InvalidArgumentError),
            (f"sqlite:///{tmp_path}/missing/folder.db", StorageUnavailableError),
            (f"sqlite:///{no_database}", StorageCorruptError),
        ):
            with pytest.raises(error):
                users.connect(wrong)
        assert users.count_messages("ann", tenant_id=1) == 0


def test_failed_connect_leaves_no_thread(tmp_path: Path) -> None:
    """A connection that could not be opened ends the thread that it had begun."""
    before = _portal_threads()
    for _ in range(3):
        with pytest.raises(StorageUnavailableError):
            users.connect(f"sqlite:///{tmp_path}/missing/folder.db")
    assert _portal_threads() <= before


def test_forgotten_connection_ends_its_thread_and_closes_its_store(shared_url: str) -> None:
    """Whoever makes one for each request and forgets it keeps nothing open."""
    before = set(threading.enumerate())
    connections = [Users(shared_url).sync for _ in range(3)]
    assert [one.count_messages("ada", tenant_id=1) for one in connections] == [0, 0, 0]
    connections.clear()
    gc.collect()
    wait_until(lambda: not set(threading.enumerate()) - before)


def test_call_fails_with_advice_when_the_connection_is_closed(sqlite_url: str) -> None:
    """After `close` the functions say how to go on; closing twice is no error."""
    connection = users.connect(sqlite_url)
    connection.close()
    connection.close()
    with pytest.raises(StoreMisuseError, match=r"connect\(\) again"):
        users.count_messages("ann", tenant_id=1)


def test_calls_from_many_threads_all_succeed(shared_url: str) -> None:
    """Threads share the connection; every message is there once, in the order of its thread's calls."""

    def add_messages(person: int) -> list[int]:
        return [users.add_message("ann", "user", f"{person}: {n}", tenant_id=1) for n in range(20)]

    with users.connect(shared_url), ThreadPoolExecutor(12) as pool:
        numbers = list(pool.map(add_messages, range(12)))
        history = users.get_recent_messages("ann", tenant_id=1, count=1000)
    assert all(mine == sorted(mine) for mine in numbers)
    assert [message.id for message in history] == sorted(number for mine in numbers for number in mine)
    assert len({message.content for message in history}) == 240


def test_first_calls_from_many_threads_open_one_connection(sqlite_url: str) -> None:
    """Threads that all come first connect once."""
    code = """
import threading
from concurrent.futures import ThreadPoolExecutor
from recollect import users
with ThreadPoolExecutor(8) as pool:
    calls = [pool.submit(users.add_message, "ann", "user", str(n), tenant_id=1) for n in range(8)]
    for call in calls:
        call.result()
print(users.count_messages("ann", tenant_id=1))
print([thread.name for thread in threading.enumerate()].count("recollect-portal"))
"""
    assert _run(code, RECOLLECT_DATABASE_URL=sqlite_url).split() == ["8", "1"]


def test_call_under_way_ends_when_its_connection_is_closed(sqlite_url: str) -> None:
    """Closing waits for a call or ends it with an error of ours; it never leaves the caller hanging."""
    started, release = threading.Event(), threading.Event()
    outcomes: list[object] = []

    async def slow(_: Users) -> str:
        started.set()
        await asyncio.to_thread(release.wait)
        return "done"

    def caller() -> None:
        try:
            outcomes.append(connection.call(slow))
        except StoreMisuseError as error:
            outcomes.append(error)

    connection = users.connect(sqlite_url)
    calling, closing = _thread(caller), _thread(connection.close)
    calling.start()
    started.wait()
    closing.start()
    closing.join(timeout=0.2)  # time enough for a close that does not wait to be over
    release.set()
    for thread in (closing, calling):
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert len(outcomes) == 1
    assert outcomes[0] == "done" or isinstance(outcomes[0], StoreMisuseError)


def test_calls_end_when_another_thread_connects_again() -> None:
    """A call during a change of connections succeeds or says that it was closed, and never hangs."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        while not stop.is_set():
            try:
                users.count_messages("ann", tenant_id=1)
            except StoreMisuseError:
                pass
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test wants to see it
                errors.append(error)

    users.connect("sqlite://")
    threads = [_thread(work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        users.connect("sqlite://")
    stop.set()
    for thread in threads:
        thread.join(timeout=120)
    assert [thread for thread in threads if thread.is_alive()] == []
    assert errors == []
    users.connect("sqlite://").close()


def test_functions_work_inside_a_running_event_loop(sqlite_url: str) -> None:
    """Sync functions have a loop of their own, so they may be called where another one runs."""

    async def main() -> int:
        await asyncio.sleep(0)
        users.add_message("ann", "user", "hi", tenant_id=1)
        return await asyncio.to_thread(users.count_messages, "ann", tenant_id=1)

    with users.connect(sqlite_url):
        assert asyncio.run(main()) == 1


def test_function_called_inside_its_own_loop_is_refused(sqlite_url: str) -> None:
    """Waiting for itself would hang, so it is an error that says what to do."""

    async def trap(_: Users) -> int:
        return users.count_messages("ann", tenant_id=1)

    with users.connect(sqlite_url) as connection, pytest.raises(StoreMisuseError, match="await"):
        connection.call(trap)


def _thread(target: Callable[[], None]) -> threading.Thread:
    # A daemon, so that a call that hangs fails its test and not the whole run.
    return threading.Thread(target=target, daemon=True)


def _portal_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("recollect-portal")


def _run(code: str, **environment: str) -> str:
    """Run code in a process of its own, where nobody has connected yet; nothing may go to stderr."""
    clean = {key: value for key, value in os.environ.items() if key != "RECOLLECT_DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
