"""The log of changes, undoing them, and changes that wait for a person."""

import json
from pathlib import Path

import pytest
from tests.backends.curated.runs import add, addition, completed, entries

from recollect import MemoryNotFoundError, StorageError
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.backends.curated.entries import Edit
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import History, Source
from recollect.backends.curated.review import MAX_PENDING, approve, enqueue, reject, undo
from recollect.errors import StaleChangeError, StorageCorruptError, StorageFullError

RUN = Source("tool", "r1", "s1")
WAITING = (
    rb'[{"id": "a", "at": "", "run_id": "", "session_id": "", "limit": 9, "target": "user", "action": "add", '
    rb'"content": "x"}]'
)
DAMAGED = {
    "half a character": WAITING.replace(b'"x"', rb'"\ud800"'),
    "a limit that is no number": WAITING.replace(b"9", b'"9"'),
    "an id that is no text": WAITING.replace(b'"a"', b"5", 1),
    "an action that nobody knows": WAITING.replace(b'"add"', b'"grow"'),
    "a change without its run": WAITING.replace(b"run_id", b"run"),
    "a list of something else": b"[5]",
    "no list": b"{}",
    "no JSON": b"{",
    "nothing": b"",
    "no text": b"\xff",
    "far too deep": b"[" * 100_000,
}


@pytest.fixture
def folder(tmp_path: Path) -> CuratedFolder:
    """Curated memory with two entries, each of a run of its own."""
    found = CuratedFolder(tmp_path)
    found.commit([addition("one")], RUN)
    found.commit([addition("two")], Source("tool", "r2", "s1"))
    return found


def kinds(history: History) -> list[str]:
    """Return who made the changes that were made."""
    return [change.source.kind for change in history.changes if change.is_applied]


def test_undo_takes_the_models_changes_back_one_by_one(folder: CuratedFolder) -> None:
    """The last first; an undo is a change of its own, which can be undone by its id."""
    first = undo(folder)
    assert (first.edits, entries(folder.path)) == ((Edit(1, "two", None),), ["one"])
    undo(folder)
    assert entries(folder.path) == []
    with pytest.raises(MemoryNotFoundError, match="no change to undo"):
        undo(folder)
    undo(folder, first.id)
    assert entries(folder.path) == ["two"]
    assert kinds(folder.history()) == ["tool", "tool", "undo", "undo", "undo"]


def test_change_that_was_brought_back_is_the_last_again(folder: CuratedFolder) -> None:
    """An undo of an undo: the next undo takes the same change back, and not the one before it."""
    brought_back = undo(folder, undo(folder).id)
    assert entries(folder.path) == ["one", "two"]
    assert undo(folder).source.undoes == folder.history().changes[1].id
    assert entries(folder.path) == ["one"]
    with pytest.raises(StaleChangeError):
        undo(folder, brought_back.id)


def test_named_change_is_undone_although_others_followed(folder: CuratedFolder) -> None:
    """What others wrote stays."""
    undo(folder, folder.history().changes[0].id)
    assert entries(folder.path) == ["two"]


def test_undo_is_refused_when_the_entry_has_changed_since(folder: CuratedFolder) -> None:
    """By hand, by the model, or because it is undone already; the file stays as it is."""
    change = folder.history().changes[0]
    (folder.path / "MEMORY.md").write_text("one more\n§\ntwo", "utf-8")
    with pytest.raises(StaleChangeError, match="changed or removed since"):
        undo(folder, change.id)
    assert entries(folder.path) == ["one more", "two"]
    undone = undo(folder)
    for wrong in ("nothing", undone.source.undoes):
        with pytest.raises(MemoryNotFoundError, match="recollect memory log"):
            undo(folder, wrong)


def test_change_whose_file_was_never_written_counts_as_not_made(folder: CuratedFolder) -> None:
    """As after a kill between log and file: the log tells, the run may come again, no person is blamed."""
    path = folder.path / "MEMORY.md"
    before = path.read_bytes()
    source = Source("tool", "r3", "s1")
    (change,) = folder.commit([addition("three")], source)
    path.write_bytes(before)
    log = folder.journal.path
    log.write_bytes(log.read_bytes().replace(b'{"done": "%s"}\n' % change.commit.encode(), b'{"id": "to'))
    assert [one.is_applied for one in folder.history().changes] == [True, True, False]
    folder.commit([addition("three")], source)
    assert entries(folder.path) == ["one", "two", "three"]
    assert kinds(folder.history()) == ["tool"] * 3


def test_log_goes_on_when_lines_of_it_are_lost_or_broken(folder: CuratedFolder) -> None:
    """What it no longer knows it takes as found, and continues from that."""
    folder.journal.path.write_bytes(b'\xff\n[1]\n{"id": 5}\n' + folder.journal.path.read_bytes()[50:])
    folder.commit([addition("three")], Source("tool", "r3", "s1"))
    folder.commit([addition("four")], Source("tool", "r4", "s1"))
    assert kinds(folder.history())[-3:] == ["by hand", "tool", "tool"]
    undo(folder)
    assert entries(folder.path) == ["one", "two", "three"]


@pytest.mark.parametrize("line", ["[" * 100_000, r'"\ud800"', "[]", "null", "9" * 5_000, '{"done": 1}', "\0"])
def test_log_goes_on_behind_a_line_that_is_no_change(folder: CuratedFolder, line: str) -> None:
    """However odd it is: too deep, half a character, no object."""
    with folder.journal.path.open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")
    folder.commit([addition("three")], Source("tool", "r3", "s1"))
    assert kinds(folder.history()) == ["tool"] * 3
    assert undo(folder).edits == (Edit(2, "three", None),)


def test_half_a_character_in_the_log_is_passed_over(folder: CuratedFolder) -> None:
    """JSON can spell it, and no file can hold it."""
    lines = folder.journal.path.read_text("utf-8").replace('"after": "two"', r'"after": "\ud800"')
    folder.journal.path.write_text(lines, "utf-8")
    folder.commit([addition("three")], Source("tool", "r3", "s1"))
    assert kinds(folder.history()) == ["tool", "by hand", "tool"]


def test_nothing_is_changed_when_the_log_cannot_be_written(folder: CuratedFolder) -> None:
    """A change that could not be looked up later is not made."""
    folder.journal.path.unlink()
    folder.journal.path.mkdir()
    with pytest.raises(StorageError):
        folder.commit([addition("three")], Source("tool", "r3", "s1"))
    assert entries(folder.path) == ["one", "two"]


@pytest.mark.anyio
async def test_changes_wait_when_a_person_must_approve_them(tmp_path: Path) -> None:
    """Each call by itself, once, without those that change nothing; nothing is written to the files."""
    backend = CuratedMemoryBackend(tmp_path, approval=True)
    run = completed(add("one"), add("one"), add("Ada", "user"))
    for again in (run, run, completed(add("one"), run_id="r2")):
        await backend.persist_after_run(again)
    first, second = backend.folder.pending()
    assert (first.change, second.change) == (addition("one"), addition("Ada", "user"))
    assert entries(tmp_path) == entries(tmp_path, "USER.md") == []
    made = approve(backend.folder, first.id)
    assert made is not None
    assert made.source == Source("approved", "r1", "s1", first.id)
    reject(backend.folder, second.id)
    await backend.persist_after_run(run)
    assert (entries(tmp_path), entries(tmp_path, "USER.md")) == (["one"], [])
    assert backend.folder.pending() == ()
    assert kinds(backend.folder.history()) == ["approved", "rejected"]
    assert "Ada" not in backend.folder.journal.path.read_text("utf-8")


def test_approved_change_is_planned_anew(folder: CuratedFolder) -> None:
    """What no longer fits keeps waiting; what is there already is a success; each is decided once."""
    enqueue(folder, [addition("three"), addition("four")], Source("tool", "r3", "s1"))
    first, second = folder.pending()
    (folder.path / "MEMORY.md").write_text("three\n§\n" + "x" * 2190, "utf-8")
    with pytest.raises(StaleChangeError, match="still waits"):
        approve(folder, second.id)
    assert approve(folder, first.id) is None
    assert folder.pending() == (second,)
    with pytest.raises(MemoryNotFoundError, match="lists those"):
        approve(folder, first.id)


def test_queue_that_was_not_cleared_does_not_make_a_change_twice(folder: CuratedFolder) -> None:
    """As after a kill between file and queue: the log knows that it was decided."""
    enqueue(folder, [addition("three"), addition("four")], Source("tool", "r3", "s1"))
    queue = folder.queue.path.read_bytes()
    first, second = folder.pending()
    approve(folder, first.id)
    reject(folder, second.id)
    folder.queue.path.write_bytes(queue)
    assert folder.pending() == ()


@pytest.mark.anyio
@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
async def test_nothing_passes_when_the_queue_is_damaged(tmp_path: Path, data: bytes) -> None:
    """Neither is the change made, nor is the queue overwritten: it fails closed."""
    backend = CuratedMemoryBackend(tmp_path, approval=True)
    queue = tmp_path / "pending.json"
    queue.write_bytes(WAITING)
    assert len(backend.folder.pending()) == 1
    queue.write_bytes(data)
    with pytest.raises(StorageCorruptError, match="no change is accepted"):
        await backend.persist_after_run(completed(add("one")))
    assert (queue.read_bytes(), entries(tmp_path)) == (data, [])


@pytest.mark.anyio
async def test_nothing_passes_when_the_queue_cannot_be_written(tmp_path: Path) -> None:
    """A folder in its place, or too much that waits already."""
    backend = CuratedMemoryBackend(tmp_path, approval=True)
    (tmp_path / "pending.json").mkdir()
    with pytest.raises(StorageError):
        await backend.persist_after_run(completed(add("one")))
    (tmp_path / "pending.json").rmdir()
    changes = [addition(str(number)) for number in range(MAX_PENDING)]
    enqueue(backend.folder, changes, RUN)
    with pytest.raises(StorageFullError, match="decide"):
        await backend.persist_after_run(completed(add("one"), run_id="r2"))
    assert entries(tmp_path) == []
    assert len(json.loads((tmp_path / "pending.json").read_bytes())) == MAX_PENDING
