"""The log of curated memory with more changes than it keeps: the oldest go, and nothing else does."""

from pathlib import Path
from typing import get_args

import pytest
from tests.backends.curated.runs import addition, entries

from recollect import InvalidArgumentError, MemoryNotFoundError
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.backends.curated.entries import Change, Operation, Target, diff_entries
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import Source, new_change, new_id
from recollect.backends.curated.review import approve, enqueue, reject, undo

LIMIT = 5


def run(number: int) -> Source:
    """Return a run of the model."""
    return Source("tool", f"r{number}", "s1")


def counted(number: int, target: Target = "memory") -> Change:
    """Return a change that counts up in a file."""
    text = f"count {number}"
    if not number:
        return addition(text, target)
    return Change(target, (Operation("replace", text, f"count {number - 1}"),))


@pytest.fixture
def folder(tmp_path: Path) -> CuratedFolder:
    """Curated memory whose log is short, with an entry in each file from before it was."""
    found = CuratedFolder(tmp_path, log_limit=LIMIT)
    found.commit([addition("old"), addition("Ada", "user")], Source("tool", "first", "s1"))
    for number in range(30):
        found.commit([counted(number)], run(number))
    return found


def test_log_keeps_the_newest_changes_and_the_files_all_entries(folder: CuratedFolder) -> None:
    """It has between the limit and twice that, knows both files whole, and takes nobody's hand for it."""
    history = folder.history()
    assert LIMIT <= len(history.changes) <= 2 * LIMIT + 1
    runs = [change.source.run_id for change in history.changes]
    assert runs == [f"r{number}" for number in range(30 - len(runs), 30)]
    assert history.known == {"memory": ("old", "count 29"), "user": ("Ada",)}
    folder.commit([addition("Bea", "user")], run(30))
    assert folder.history().changes[-1].source == run(30)
    assert (entries(folder.path), entries(folder.path, "USER.md")) == (["old", "count 29"], ["Ada", "Bea"])


def test_kept_changes_can_be_undone_and_dropped_ones_not(folder: CuratedFolder, tmp_path: Path) -> None:
    """One by one back to the first that is kept, although undoing shortens the log as well."""
    folder = CuratedFolder(tmp_path, log_limit=20)
    kept = [change.source.run_id for change in folder.history().changes]
    for _ in kept:
        undo(folder)
    assert entries(folder.path) == ["old", f"count {29 - len(kept)}"]
    with pytest.raises(MemoryNotFoundError, match="no change to undo"):
        undo(folder)


def test_run_that_is_sent_again_changes_nothing_twice(folder: CuratedFolder) -> None:
    """As long as the log has it."""
    folder.commit([addition("new")], run(40))
    undo(folder)
    assert folder.commit([addition("new")], run(40)) == []
    assert entries(folder.path) == ["old", "count 29"]


def test_change_by_hand_is_told_apart_behind_a_short_log(folder: CuratedFolder) -> None:
    """What was known of the file is known still."""
    (folder.path / "USER.md").write_text("Ada Lovelace", "utf-8")
    folder.commit([addition("Likes tea", "user")], run(30))
    by_hand, by_model = folder.history().changes[-2:]
    assert (by_hand.source.kind, by_model.source.kind) == ("by hand", "tool")
    assert [(edit.before, edit.after) for edit in by_hand.edits] == [("Ada", "Ada Lovelace")]


def test_change_that_was_not_made_stays_so(folder: CuratedFolder) -> None:
    """Its writer was killed between log and file; a short log must not take it for made."""
    states = ("old", "count 29"), ("old", "lost")
    lost = new_change("memory", run(99), states, diff_entries(*states), new_id())
    folder.journal.append([lost])
    for number in range(30, 33):
        folder.commit([counted(number)], run(number))
    shown = {change.source.run_id: change.is_applied for change in folder.history().changes}
    assert shown["r99"] is False
    assert all(made for name, made in shown.items() if name != "r99")
    for number in range(33, 60):
        folder.commit([counted(number)], run(number))
    assert "r99" not in [change.source.run_id for change in folder.history().changes]
    assert folder.history().known["memory"] == ("old", "count 59")


def test_what_was_made_together_is_dropped_together(tmp_path: Path) -> None:
    """Changes of one write stand for one state of the file."""
    folder = CuratedFolder(tmp_path, log_limit=1)
    for number in range(8):
        folder.commit([counted(2 * number), counted(2 * number + 1)], run(number))
        changes = folder.history().changes
        assert len(changes) % 2 == 0
        assert len(changes) <= 4
    assert folder.history().known["memory"] == ("count 15",)


def test_decided_change_does_not_wait_again_when_the_log_forgets_it(folder: CuratedFolder) -> None:
    """As after a kill between log and queue: the queue is put right before the log is."""
    enqueue(folder, [addition(text) for text in ("yes", "no", "later")], Source("tool", "asked", "s1"))
    queue = folder.queue.path.read_bytes()
    first, second, third = folder.pending()
    approve(folder, first.id)
    reject(folder, second.id)
    folder.queue.path.write_bytes(queue)
    for number in range(30, 60):
        folder.commit([counted(number)], run(number))
    assert "asked" not in [change.source.run_id for change in folder.history().changes]
    assert folder.pending() == folder.queue.read() == (third,)


def test_log_that_cannot_be_shortened_stops_no_change(
    folder: CuratedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue that nobody can read keeps the log as it is, and says so."""
    folder.queue.path.write_bytes(b"{")
    for number in range(30, 60):
        folder.commit([counted(number)], run(number))
    assert len(folder.history().changes) > 2 * LIMIT + 1
    assert "was not shortened" in caplog.text
    folder.queue.path.unlink()
    folder.commit([counted(60)], run(60))
    assert len(folder.history().changes) == LIMIT + 1
    assert entries(folder.path) == ["old", "count 60"]


def test_log_of_few_changes_is_shortened_when_they_are_long(tmp_path: Path) -> None:
    """Before it has reached what can be read at all."""
    folder = CuratedFolder(tmp_path)
    folder.commit([addition("one")], run(0))
    states = ("a",), ("b" * 2**20,)
    edits = diff_entries(*states)
    folder.journal.append([new_change("memory", run(n), states, edits, new_id()) for n in range(1, 40)])
    size = folder.journal.size()
    folder.commit([addition("two")], run(50))
    assert folder.journal.size() < size * 0.6
    assert entries(folder.path) == ["one", "two"]


def test_line_of_the_beginning_that_is_damaged_is_a_gap(folder: CuratedFolder) -> None:
    """The log continues from the entries that it finds."""
    lines = folder.journal.path.read_text("utf-8").splitlines(keepends=True)
    assert sum("begun" in line for line in lines) == len(get_args(Target))
    damaged = ['{"begun": "nobody", "entries": []}\n', '{"begun": "user", "entries": [5]}\n', *lines[2:]]
    folder.journal.path.write_text("".join(damaged), "utf-8")
    folder.commit([counted(30)], run(30))
    folder.commit([counted(31)], run(31))
    assert [change.source.kind for change in folder.history().changes[-3:]] == ["by hand", "tool", "tool"]
    assert entries(folder.path) == ["old", "count 31"]


@pytest.mark.parametrize("limit", [0, -1, True, "many"])
def test_wrong_limit_is_refused(tmp_path: Path, limit: int) -> None:
    """At least the last change is kept."""
    with pytest.raises(InvalidArgumentError, match="log_limit"):
        CuratedMemoryBackend(tmp_path, log_limit=limit)
