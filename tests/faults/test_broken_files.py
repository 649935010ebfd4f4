"""Files that are no store, or no longer: always an error of our own that says what to do."""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.schemas import names_in
from tests.faults.turns import SCOPES, Ack, check_whole, make_turn
from tests.support.waiting import GENEROUS

from recollect import ConflictError, Message, Scope, StorageError, Store, ToolCall, ToolResult, open_store
from recollect.errors import StorageCorruptError, StorageUnavailableError

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

PAGE = 4096
SCOPE = Scope(1, "ann", "chat")


async def test_opening_fails_clearly_when_the_file_is_no_database(tmp_path: Path) -> None:
    """A text file is refused and left as it was."""
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes.\n" * 500)
    before = path.read_bytes()
    with pytest.raises(StorageCorruptError, match=r"notes\.txt: the file is not a SQLite database"):
        await open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["notes.txt"]


async def test_opening_fails_clearly_when_the_database_is_of_another_program(tmp_path: Path) -> None:
    """Somebody else's database is refused, and not one byte of it changes."""
    path = tmp_path / "other.db"
    connection: Any = apsw.Connection(str(path))
    connection.execute("CREATE TABLE accounts (name TEXT); INSERT INTO accounts VALUES ('ann')")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(StorageCorruptError, match="another program; choose another file"):
        await open_store(f"sqlite:///{path}")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert names_in(tmp_path) == ["other.db"]


@pytest.mark.parametrize(
    "place", ["missing/store.db", "a_file/store.db", "a_folder", "x" * 300, f"{'x' * 300}/y.db"]
)
async def test_opening_fails_clearly_when_the_path_leads_nowhere(tmp_path: Path, place: str) -> None:
    """A missing folder, a folder for a file and names that are too long are told from a damaged file."""
    (tmp_path / "a_file").touch()
    (tmp_path / "a_folder").mkdir()
    with pytest.raises(StorageUnavailableError, match=r"folder|opened"):
        await open_store(f"sqlite:///{tmp_path}/{place}")
    assert names_in(tmp_path) == ["a_file", "a_folder"]


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.95])
async def test_only_our_errors_appear_when_the_file_was_cut_short(tmp_path: Path, share: float) -> None:
    """A file that lost its end is noticed when it is opened or used, without a driver's exception."""
    path = await _filled_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert await _errors_of_everything(path), "nothing was noticed"


@pytest.mark.parametrize("seed", range(12))
async def test_only_our_errors_appear_when_pages_are_damaged(tmp_path: Path, seed: int) -> None:
    """Bytes that changed in the middle of the file lead to storage errors, or to other text."""
    rng = random.Random(seed)
    path = await _filled_file(tmp_path)
    content = bytearray(path.read_bytes())
    for page in rng.sample(range(1, len(content) // PAGE), 6):
        for _ in range(rng.choice((1, 8, 64))):
            content[page * PAGE + rng.randrange(PAGE)] = rng.randrange(256)
    path.write_bytes(content)
    for error in await _errors_of_everything(path):
        assert isinstance(error, StorageError), repr(error)


async def test_damage_is_named_when_a_page_of_messages_is_overwritten(tmp_path: Path) -> None:
    """Reading a page of noise says that the file is damaged and what to do about it."""
    path = await _filled_file(tmp_path)
    content = bytearray(path.read_bytes())
    page = content.index(b"KEEP THIS TEXT 150") // PAGE
    content[page * PAGE : (page + 1) * PAGE] = random.Random(1).randbytes(PAGE)
    path.write_bytes(content)
    async with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(StorageCorruptError, match="damaged; restore it from a backup"):
            await store.last_messages(None, scope=SCOPE)


@pytest.mark.parametrize(
    ("intact", "spoilt"),
    [
        (b"KEEP THIS TEXT 150", b"KEEP \xff\xfe\xfd\xfc TEXT 150"),
        (b'"kept-argument-150"', b'"kept-argument-150}'),
        (b'"kept-metadata-150"', b'"kept-metadata-150\x01'),
        (b'{"type":"tool_call","id":"call-150"', b'{"type":"tool_wall","id":"call-150"'),
    ],
    ids=["text", "parts", "metadata", "kind of part"],
)
async def test_damage_is_named_when_the_content_of_a_row_is_spoilt(
    tmp_path: Path, intact: bytes, spoilt: bytes
) -> None:
    """What SQLite cannot notice, text that is no text and JSON that is no JSON, is a damaged file too."""
    path = await _filled_file(tmp_path)
    content = path.read_bytes()
    assert intact in content
    assert len(intact) == len(spoilt)
    path.write_bytes(content.replace(intact, spoilt))
    async with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(StorageCorruptError):
            _ = [line async for line in store.export(scope=SCOPE)]
        stored = await store.get_thread(scope=SCOPE)
        assert stored is not None
        assert len(await store.last_messages(None, scope=SCOPE)) == stored.message_count - 1


async def test_other_writes_succeed_when_one_of_a_batch_fails(store: Store) -> None:
    """Of ten turns that are written together only the one with a wrong id is refused."""
    rng = random.Random(2)
    taken = make_turn(rng, "taken", scope=SCOPES[0])
    acks = [await taken.write(store)]
    turns = [make_turn(rng, f"{number}", scope=SCOPES[number % 8]) for number in range(10)]
    turns[4] = taken._replace(scope=SCOPES[1])
    outcomes = await asyncio.gather(*(turn.write(store) for turn in turns), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Ack] * 4 + [ConflictError] + [Ack] * 5
    acks += [outcome for outcome in outcomes if isinstance(outcome, Ack)]
    assert await check_whole(store, acks) == len(acks)


async def _filled_file(folder: Path) -> Path:
    path = folder / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        for number in range(0, 300, 3):
            turns = [_rich_turn(name) for name in range(number, number + 3)]
            await store.append_turn([message for turn in turns for message in turn], scope=SCOPE)
        await store.set_memory("likes", {"drink": "tea"}, scope=SCOPE)
        await store.set_state("calm", scope=SCOPE)
    return path


def _rich_turn(number: int) -> list[Message]:
    call = ToolCall(f"call-{number}", "look", {"for": f"kept-argument-{number}"})
    return [
        Message("user", f"KEEP THIS TEXT {number}: grüße {'and more ' * 8}"),
        Message("assistant", [call], metadata={"note": f"kept-metadata-{number}"}),
        Message("tool", [ToolResult(call.id, "look", {"found": [number]})]),
    ]


async def _errors_of_everything(path: Path) -> list[Exception]:
    """Do all that a store can do and return whatever went wrong; a call that hangs is a TimeoutError."""
    errors: list[Exception] = []
    async with asyncio.timeout(GENEROUS):
        try:
            store = await open_store(f"sqlite:///{path}")
        except StorageError as error:
            return [error]
        for call in _calls(store):
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - the tests check them
                errors.append(error)
        await store.close()
    return errors


def _calls(store: Store) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: store.last_messages(10, scope=SCOPE),
        lambda: store.last_messages(None, scope=SCOPE),
        lambda: store.user_history(scope=SCOPE),
        lambda: store.count_user_history(scope=SCOPE),
        lambda: store.page_of_messages(limit=50, offset=200, scope=SCOPE),
        lambda: store.search_rows(scope=SCOPE),
        lambda: store.list_threads(scope=SCOPE),
        lambda: store.list_memory(scope=SCOPE),
        lambda: store.get_state(scope=SCOPE),
        lambda: _exported(store),
        lambda: store.append_turn([Message("tool", [ToolResult("call-299", "look", 1)])], scope=SCOPE),
        lambda: store.append_turn([Message("user", "Hello?")], scope=Scope(2, "bob", "chat")),
        lambda: store.delete_thread(scope=SCOPE),
        lambda: store.erase(scope=SCOPE),
    ]


async def _exported(store: Store) -> list[str]:
    return [line async for line in store.export(scope=SCOPE)]


async def test_nobody_else_may_read_the_files_when_the_store_has_made_them(tmp_path: Path) -> None:
    """The file, its log and the index of it are the owner's alone; a file that was there keeps its mode."""
    given = tmp_path / "given.db"
    given.touch(mode=0o640)
    given.chmod(0o640)
    for name, mode in (("own.db", 0o600), ("given.db", 0o640)):
        async with open_store(tmp_path / name) as store:
            await store.append_turn([Message("user", "hello")], scope=SCOPE)
            files = [tmp_path / f"{name}{end}" for end in ("", "-wal", "-shm")]
            assert [file.stat().st_mode & 0o777 for file in files] == [mode] * 3
