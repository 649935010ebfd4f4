"""Curated memory against a model of it: whatever people, models and crashes do, file and log agree."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.profiles import examples

from recollect.backends.curated.entries import Change, Operation, Plan, plan, serialise
from recollect.backends.curated.folder import CuratedFolder
from recollect.backends.curated.journal import LOG_LIMIT, LoggedChange, Source
from recollect.backends.curated.review import approve, enqueue, reject, undo
from recollect.errors import MemoryNotFoundError, StaleChangeError

WORDS = st.sampled_from(["a", "b", "ab", "c", "abc"])
OPERATIONS = st.builds(Operation, st.sampled_from(["add", "replace", "remove"]), WORDS, WORDS)
LIMIT = 20


class CuratedModel(RuleBasedStateMachine):
    """Changes a folder in every way there is, and keeps what its file must hold."""

    log_limit = LOG_LIMIT

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._place = tempfile.TemporaryDirectory()
        self._folder = CuratedFolder(
            Path(self._place.name), limits={"memory": LIMIT, "user": LIMIT}, log_limit=self.log_limit
        )
        self._entries: tuple[str, ...] = ()
        self._is_noted = True
        self._runs = 0

    def teardown(self) -> None:
        """Remove the folder."""
        self._place.cleanup()

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=3))
    def commit(self, operations: list[Operation]) -> None:
        """A run changes the file, twice for good measure."""
        source = self._source()
        for _ in range(2):
            self._change(lambda: self._folder.commit([Change("memory", tuple(operations))], source))
            self._planned(operations, once=_ == 0)

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=2), wanted=st.booleans())
    def review(self, operations: list[Operation], *, wanted: bool) -> None:
        """A run's change waits for a person, who decides at once."""
        self._change(lambda: enqueue(self._folder, [Change("memory", tuple(operations))], self._source()))
        for one in self._folder.pending():
            decide = approve if wanted else reject
            self._change(lambda one=one, decide=decide: decide(self._folder, one.id))
            if wanted:
                self._planned(operations, once=True)

    @rule(entries=st.lists(WORDS, max_size=4, unique=True), ending=st.sampled_from(["", "\n"]))
    def edit(self, entries: list[str], ending: str) -> None:
        """A person saves the file."""
        (self._folder.path / "MEMORY.md").write_text(serialise(entries, ending=ending), "utf-8")
        self._is_noted = self._is_noted and tuple(entries) == self._entries
        self._entries = tuple(entries)

    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        """A person undoes any change, or the last one."""
        ids = [change.id for change in self._folder.history().changes]
        wanted = data.draw(st.none() | st.sampled_from(ids) if ids else st.none())
        before = self._entries
        if self._change(lambda: undo(self._folder, wanted)):
            self._entries = self._folder.read("memory").entries
            assert self._entries != before

    @rule(content=WORDS, reached=st.booleans())
    def crash(self, content: str, *, reached: bool) -> None:
        """A writer is killed after it wrote the log, before or after it wrote the file."""
        path = self._folder.path / "MEMORY.md"
        before = path.read_bytes() if path.exists() else None
        made = self._folder_commit(content)
        if not made:
            return
        log = self._folder.journal.path
        log.write_bytes(log.read_bytes().replace(b'{"done": "%s"}\n' % made[0].commit.encode(), b""))
        self._is_noted = True
        if reached:
            self._planned([Operation("add", content)], once=True)
        elif before is None:
            path.unlink()
        else:
            path.write_bytes(before)

    @invariant()
    def agrees(self) -> None:
        """The file holds what it must, and the log knows it unless a person has edited it since."""
        assert self._folder.read("memory").entries == self._entries
        history = self._folder.history()
        if self._is_noted:
            assert history.known["memory"] == self._entries
        assert self._folder.pending() == ()

    def _folder_commit(self, content: str) -> list[LoggedChange]:
        try:
            return self._folder.commit([Change("memory", (Operation("add", content),))], self._source())
        except StaleChangeError:
            return []

    def _change(self, work: "object") -> bool:
        """Do something that may be refused; say whether it was done."""
        assert callable(work)
        before = {change.id for change in self._folder.history().changes}
        try:
            work()
        except (StaleChangeError, MemoryNotFoundError):
            return False
        # Whatever is logged on this file logs first what a person did.
        changes = [change for change in self._folder.history().changes if change.id not in before]
        self._is_noted = self._is_noted or any(change.source.kind != "rejected" for change in changes)
        return True

    def _planned(self, operations: list[Operation], *, once: bool) -> None:
        made = plan(self._entries, operations, limit=LIMIT, scan=lambda _: None)
        if once and isinstance(made, Plan):
            self._entries = made.entries

    def _source(self) -> Source:
        self._runs += 1
        return Source("tool", f"r{self._runs}", "s1")


class ShortLogModel(CuratedModel):
    """The same with a log that forgets nearly all."""

    log_limit = 2


TestCuratedModel = CuratedModel.TestCase
TestCuratedModel.settings = settings(examples(0.4), stateful_step_count=12)
TestShortLogModel = ShortLogModel.TestCase
TestShortLogModel.settings = settings(examples(0.4), stateful_step_count=20)
