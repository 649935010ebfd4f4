"""The fixed yardstick, and the conditions under which the store is compared with it."""

import time
from pathlib import Path

import pytest

from benchmarks.harness import fixed as fixed_module
from benchmarks.harness.fixed import FixedSqlite, prepare_fixed_turns
from benchmarks.harness.load import LoadWatch
from benchmarks.harness.logs import FULL_PAGES, count_log_pages, fill_logs
from benchmarks.harness.replay import messages_of
from benchmarks.harness.report import Goal
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import make_processor_lap, make_sync_lap
from benchmarks.harness.undurable import without_durability
from recollect import Scope, open_store

pytestmark = pytest.mark.anyio


def test_the_fixed_writer_stores_turns_and_reads_the_last_ten(tmp_path: Path) -> None:
    """Each session has its own messages, the newest first, with ids that no other has."""
    texts = SampleTexts().turns(14)
    turns = prepare_fixed_turns(texts, sessions=2)
    writer = FixedSqlite(tmp_path / "fixed.db", sessions=2)
    for turn in turns:
        writer.append(turn)
    rows = writer.read(1)
    writer.close()
    expected = [text for turn in texts[1::2] for text in turn][::-1][:10]
    assert [(role, text) for _, _, role, text, *_ in rows] == list(
        zip(["assistant", "user"] * 5, expected, strict=True)
    )
    assert len({row[1] for turn in turns for row in turn.messages}) == 28
    assert [row[-1] for row in rows] == sorted((row[-1] for row in rows), reverse=True)


def test_the_fixed_writer_uses_nothing_of_recollect() -> None:
    """Otherwise a change of the store could change the yardstick."""
    source = Path(fixed_module.__file__).read_text("utf-8")
    assert "import recollect" not in source
    assert "from recollect" not in source


async def test_synchronous_is_off_for_every_connection_that_is_opened(tmp_path: Path) -> None:
    """A store stays usable, and connections from before or after stay durable."""
    with without_durability() as opened:
        store = await open_store(tmp_path / "ours.db")
    async with store:
        assert opened
        for connection in opened:
            assert connection.execute("PRAGMA synchronous").fetchall() == [(0,)]
        scope = Scope(1, "user", "thread")
        await store.append_turn(messages_of(("question", "answer")), scope=scope)
        assert len(await store.last_messages(None, scope=scope)) == 2
    known = len(opened)
    async with open_store(tmp_path / "durable.db"):
        assert len(opened) == known


async def test_the_warm_up_ends_when_every_log_is_written_again(tmp_path: Path) -> None:
    """A log has been full, and one more round does not make it much longer."""
    path = tmp_path / "fixed.db"
    writer = FixedSqlite(path, synchronous="OFF")
    prepared = iter(prepare_fixed_turns(SampleTexts().turns(1000)))
    lap = make_sync_lap(lambda: writer.append(next(prepared)))
    found = await fill_logs({"fixed": lap}, {"fixed": path}, tries=100, max_rounds=10)
    pages = count_log_pages(path)
    await lap(100)
    assert pages == found.pages["fixed"] >= FULL_PAGES
    assert count_log_pages(path) - pages < 20  # a later turn may end a few pages further
    assert (found.growing, found.list_notes("Appending")) == ([], [])
    writer.close()


async def test_a_warm_up_that_is_too_short_says_so(tmp_path: Path) -> None:
    """The report names the contestants whose log still grew."""

    async def lap(count: int) -> list[float]:
        return [0.0] * count

    found = await fill_logs({"ours": lap}, {"ours": tmp_path / "none.db"}, tries=1, max_rounds=3)
    assert (found.rounds, found.pages, found.growing) == (3, {"ours": 0}, ["ours"])
    assert "still grew: ours" in found.list_notes("Appending")[0]


GOALS = [Goal("append", "≤ 1.5 times", 1.2, met=True), Goal("peer", "≤ 1 times", None, met=False)]


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (None, None)])
def test_goals_are_judged_on_a_quiet_machine(before: float | None, after: float | None) -> None:
    """A load of 1 is that of the benchmark itself."""
    watch = LoadWatch(before, after)
    assert watch.judge(GOALS) == GOALS
    assert watch.list_notes("Appending") == []


@pytest.mark.parametrize(("before", "after"), [(1.01, 0.2), (0.2, 3.0)])
def test_measured_goals_are_not_judged_on_a_busy_machine(before: float, after: float) -> None:
    """What could not be measured stays missed, and a note says why the rest is not judged."""
    watch = LoadWatch(before, after)
    assert [goal.met for goal in watch.judge(GOALS)] == [None, False]
    assert f"{before} before and {after} after" in watch.list_notes("Appending")[0]


async def test_a_processor_lap_gives_the_mean_of_a_batch() -> None:
    """Work counts, waiting does not."""
    working = make_processor_lap(make_sync_lap(lambda: sum(range(200_000))))
    sleeping = make_processor_lap(make_sync_lap(lambda: time.sleep(0.01)))
    (much,), (little,) = await working(5), await sleeping(5)
    assert much > little
    assert little < 0.005
