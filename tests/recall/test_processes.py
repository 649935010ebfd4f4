"""Several processes on one database: each search sees what any of them saved, and a kill loses nothing."""

import asyncio
import time
from multiprocessing.connection import Connection

import pytest
from tests.faults.children import Child
from tests.support.embedders import Words

from recollect import Memory, Message, Scope

pytestmark = [pytest.mark.faults]

BOTH = pytest.mark.parametrize(
    "url", ["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A database on each engine in turn that processes can share."""
    return request.getfixturevalue(request.param)


class Endless(Words):
    """Hangs in a thread that nobody can stop, as a broken driver does."""

    def __init__(self, line: Connection) -> None:
        """Take the connection on which it reports that it was called."""
        super().__init__()
        self._line = line

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Send a message, and block the whole process."""
        self._line.send_bytes(f"embedding {len(texts)}".encode())
        time.sleep(60)  # noqa: ASYNC251 - the fault itself: the process is killed while it embeds
        return await super().embed_documents(texts)


def ada(url: str, embedder: object) -> Memory:
    """Return ada's memory in this process."""
    return Memory(url, tenant_id=None, resource_id="ada", semantic_recall=True, embedder=embedder)


def save_one(line: Connection, url: str, text: str) -> None:
    """Save a message of ada's in a process of its own, embedded."""

    async def run() -> None:
        async with ada(url, Words()) as memory:
            await memory.add_message("user", text)
            await memory.settled()

    asyncio.run(run())
    line.send_bytes(b"saved")


def delete_all(line: Connection, url: str) -> None:
    """Delete ada's thread in a process of its own."""

    async def run() -> None:
        async with ada(url, None) as memory:
            await memory.delete_thread("default")

    asyncio.run(run())
    line.send_bytes(b"deleted")


def save_and_hang(line: Connection, url: str) -> None:
    """Save a message and hang while it is embedded."""

    async def run() -> None:
        memory = ada(url, Endless(line))
        await memory.save_messages([Message("user", "The cello is in the attic.")])
        await memory.settled()

    asyncio.run(run())


@BOTH
def test_next_query_sees_what_another_process_saved_or_deleted(url: str) -> None:
    """The next query updates a warm index with the writes of any process."""

    async def run() -> None:
        async with ada(url, Words()) as memory:
            await memory.add_message("user", "The violin is here.")
            await memory.settled()
            assert len(await memory.query("cello violin", message_range=0)) == 1
            with Child(save_one, url, "The cello is there.") as child:
                assert await asyncio.to_thread(child.finish) == [b"saved"]
            found = await memory.query("cello", top_k=1, explain=True)
            assert [hit.text for hit in found] == ["The cello is there."]
            assert found[0].why is not None
            assert found[0].why.vector_score is not None
            with Child(delete_all, url) as child:
                assert await asyncio.to_thread(child.finish) == [b"deleted"]
            assert len(await memory.query("cello violin")) == 0

    asyncio.run(run())


@BOTH
def test_rows_of_another_process_are_read_as_they_are(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process neither analyses nor embeds what another one has indexed."""

    def fail(_: str) -> None:
        raise AssertionError("a text was analysed again")

    async def run() -> None:
        embedder = Words()
        with Child(save_one, url, "The cello is there.") as child:
            assert await asyncio.to_thread(child.finish) == [b"saved"]
        monkeypatch.setattr("recollect.recall.index.user_index.analyse_segments", fail)
        monkeypatch.setattr("recollect.recall.embedding.indexer.analyse_segments", fail)
        async with ada(url, embedder) as memory:
            (hit,) = await memory.query("cello", explain=True)
            await memory.settled()
        assert hit.why is not None
        assert (hit.text, hit.why.vector_score is None) == ("The cello is there.", False)
        assert embedder.read == []

    asyncio.run(run())


@BOTH
def test_message_is_found_when_its_process_was_killed_before_it_was_embedded(url: str) -> None:
    """By its words at once, and by its vector: the search of another process embeds it."""
    with Child(save_and_hang, url) as child:
        assert child.hear() == b"embedding 1"
        child.kill()

    async def run() -> None:
        async with ada(url, Words()) as memory:
            found = await memory.query("cello")
            assert [hit.text for hit in found] == ["The cello is in the attic."]
            await memory.settled()
            (hit,) = await memory.query("cello", explain=True)
            assert hit.why is not None
            assert hit.why.vector_score is not None
            store = await memory._handle.get()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - to look at its rows
            assert len((await store.search_rows(scope=Scope(None, "ada"))).vectors) == 1

    asyncio.run(run())
