"""URLs of many wrong shapes: the error names the argument and never repeats a password."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Generator

import pytest
from tests.support.waiting import GENEROUS

from recollect import InvalidArgumentError, RecollectError, open_store
from recollect.errors import StorageUnavailableError

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

SECRET = "hunter2"

MALFORMED: tuple[object, ...] = (
    "",
    "://",
    "file:///store.db",
    f"mysql://ann:{SECRET}@localhost/db",
    f"postgresql+psycopg://ann:{SECRET}@localhost/db",
    5,
    b"sqlite://",
    "sqlite://store.db",
    f"sqlite://ann:{SECRET}@host/store.db",
    "sqlite:///store.db?mode=ro",
    "sqlite:///store.db#top",
    "sqlite:///a%00b.db",
    "sqlite:///a\0b.db",
    "sqlite://[half",
    "sqlite:///\ud800.db",
)

MALFORMED_POSTGRES: tuple[str, ...] = (
    "postgresql:",
    "postgresql:/",
    f"postgresql:ann:{SECRET}@localhost/db",
    f"postgresql://ann:{SECRET}%zz@localhost/db",
    f"postgresql://ann:{SECRET}@[half/db",
    f"postgresql://ann:{SECRET} word@localhost/db",
    f"postgresql://ann:{SECRET}@localhost/db?no_such_option={SECRET}",
    f"postgresql://ann:{SECRET}@localhost/db\0",
    f"postgresql://ann:{SECRET}@\ud800/db",
    f"postgresql://ann:{SECRET}@localhost:port/db",
    f"postgresql://ann:{SECRET}@localhost:99999/db",
    f"postgresql://ann:{SECRET}@{'x' * 70}/db",
    f"postgresql://ann:{SECRET}@a..b/db",
    f"postgresql://ann:pass@{SECRET}@localhost/db",  # an '@' that should have been written %40
    f"postgresql://ann:pass/{SECRET}@localhost/db",  # a '/' that should have been written %2F
)


@pytest.mark.parametrize("url", MALFORMED, ids=repr)
async def test_url_is_refused_when_it_is_malformed(url: str) -> None:
    """The error is about the argument `store`, before anything is opened or made."""
    error = await _error_of(url)
    assert isinstance(error, InvalidArgumentError), repr(error)
    assert error.argument == "store"
    assert str(error).startswith("store: ")
    assert SECRET not in _all_text(error)


@pytest.mark.postgres
@pytest.mark.parametrize("url", MALFORMED_POSTGRES, ids=repr)
async def test_postgres_url_is_refused_when_it_is_malformed(url: str) -> None:
    """The error is about the argument `store`, and no part of a password is in it."""
    error = await _error_of(url)
    assert SECRET not in _all_text(error)
    assert isinstance(error, InvalidArgumentError), repr(error)
    assert error.argument == "store"


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "many"])
async def test_pool_size_is_refused_when_it_is_no_positive_number(size: int) -> None:
    """The error is about the argument `pool_size`, on each engine and before anything is opened."""
    for url in ("sqlite://", "postgresql://localhost:1/db"):
        with pytest.raises(InvalidArgumentError, match="pool_size"):
            await open_store(url, pool_size=size)


async def test_url_is_asked_for_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the environment variable that would have helped."""
    monkeypatch.delenv("RECOLLECT_DATABASE_URL", raising=False)
    with pytest.raises(InvalidArgumentError, match=r"store: .*RECOLLECT_DATABASE_URL"):
        await open_store()


def test_sync_functions_say_the_same_when_the_url_is_malformed() -> None:
    """A wrong URL in the environment is an error of the first call, and quotes no password."""
    code = "from recollect import users; users.count_messages('ann', 1)"
    url = {"RECOLLECT_DATABASE_URL": f"mysql://ann:{SECRET}@localhost/db"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | url, capture_output=True, text=True, check=False
    )
    assert "InvalidArgumentError: store: " in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.postgres
async def test_error_comes_soon_when_no_server_listens(closed_port: int) -> None:
    """A closed port is reported at once, with the place and without the password."""
    error = await _error_of(f"postgresql://ann:{SECRET}@127.0.0.1:{closed_port}/db")
    assert isinstance(error, StorageUnavailableError), repr(error)
    assert "refused" in str(error)
    assert "127.0.0.1" in str(error)
    assert SECRET not in _all_text(error)


@pytest.mark.postgres
async def test_error_comes_in_time_when_the_server_never_answers(
    silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that takes connections and says nothing is given up after the time that the URL sets."""
    monkeypatch.setattr("recollect.storage.opening.BUSY_SECONDS", 600)
    async with asyncio.timeout(GENEROUS):
        error = await _error_of(f"postgresql://ann:{SECRET}@127.0.0.1:{silent_port}/db?connect_timeout=2")
    assert isinstance(error, StorageUnavailableError), repr(error)
    assert SECRET not in _all_text(error)


@pytest.fixture
def closed_port() -> Generator[int]:
    """A port of this machine on which nobody listens, nor begins to as long as it is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def silent_port() -> Generator[int]:
    """A port of this machine that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def _error_of(url: str) -> Exception:
    try:
        store = await open_store(url)
    except Exception as error:  # noqa: BLE001 - the tests check it
        return error
    await store.close()
    raise AssertionError(f"{url!r} was opened")


def _all_text(error: BaseException) -> str:
    """Return everything that a log of the error would show."""
    texts = [f"{error!r} {error}"]
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if shown is not None:
        texts.append(_all_text(shown))
    if isinstance(error, RecollectError):
        texts.append(repr(error.__dict__))
    return "\n".join(texts)
