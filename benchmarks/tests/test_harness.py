"""What all benchmarks share: timing, recordings, filled stores, the machine's facts, the page.

A comparison is fair only if both sides do the same work.
"""

from pathlib import Path

import pytest

from benchmarks.harness.fill import (
    MESSAGES_PER_USER,
    count_users,
    fill_postgres,
    fill_sqlite,
    make_crowd,
    scope_of,
)
from benchmarks.harness.machine import choose_disk_folder, describe_machine, find_file_system
from benchmarks.harness.output import write_page
from benchmarks.harness.replay import BareSqlite, messages_of, prepare_calls, record
from benchmarks.harness.report import Goal, Part, Report, at_most, ignore_progress, ratio_goal
from benchmarks.harness.texts import SampleTexts
from benchmarks.harness.timing import Lap, Timings, compute_percentile, compute_ratio, race
from benchmarks.recall import stores
from recollect import Scope, open_store
from recollect.errors import InvalidArgumentError
from recollect.storage.store import Store

pytestmark = pytest.mark.anyio


async def test_contestants_take_turns_when_they_race() -> None:
    """Each goes first as often as the other, and the laps before the first round do not count."""
    order: list[str] = []

    def contestant(name: str, second: float) -> Lap:
        async def lap(count: int) -> list[float]:
            order.append(name)
            return [second] * count

        return lap

    shares: list[float] = []
    found = await race(
        {"ours": contestant("ours", 2.0), "bare": contestant("bare", 1.0)},
        rounds=2,
        tries=3,
        tick=shares.append,
    )
    assert order == ["ours", "bare", "bare", "ours"] * 2
    assert found["ours"].rounds == [[2.0] * 3] * 2
    assert found["bare"].rounds == [[1.0] * 3] * 2
    assert shares[-1] == 1


def test_a_ratio_compares_medians_and_shows_the_spread_of_rounds() -> None:
    """One slow try changes neither, one slow round shows in the spread."""
    ours = Timings([[2.0, 2.0, 90.0], [2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    bare = Timings([[1.0, 1.0, 1.0], [1.0, 50.0, 1.0], [1.0, 1.0, 1.0]])
    found = compute_ratio(ours, bare)
    assert found.value == 2.0
    assert (found.low, found.high) == (2.0, 8.0)
    assert found.spread == "2.00 to 8.00"
    goal = ratio_goal("append", 1.5, found, ours, bare)
    assert (goal.goal, goal.measured, goal.met) == ("≤ 1.5 times", 2.0, False)
    assert ratio_goal("append", 2.0, found, ours, bare).met is True


def test_a_goal_is_not_met_when_it_could_not_be_measured() -> None:
    """What is missing is never counted as reached."""
    goal = at_most("append", 1.5, None)
    assert goal.as_json() == {"name": "append", "goal": "≤ 1.5 times", "measured": None, "met": False}


def test_parts_are_joined_in_order() -> None:
    """Goals, figures and notes of all parts end in one report."""
    whole = Part([Goal("a", "≤ 1 times", 1.0, met=True)], {"a": 1}, ["one"])
    whole.add(Part([Goal("b", "≤ 1 times", 2.0, met=False)], {"b": 2}, ["two"]))
    assert [goal.name for goal in whole.goals] == ["a", "b"]
    assert (whole.figures, whole.notes) == ({"a": 1, "b": 2}, ["one", "two"])


def test_a_percentile_is_one_of_the_values() -> None:
    """The highest share gives the last value."""
    values = [float(number) for number in range(1, 11)]
    assert compute_percentile(values, 0.5) == 6.0
    assert compute_percentile(values, 1.0) == 10.0


def test_made_up_texts_are_the_same_in_every_run() -> None:
    """Two runs measure the same texts, of a realistic length."""
    texts = SampleTexts().texts(200)
    assert texts == SampleTexts().texts(200)
    assert 150 < sum(map(len, texts)) / len(texts) < 250
    assert len(set(texts)) == 200


async def test_the_bare_driver_stores_what_the_store_does(tmp_path: Path) -> None:
    """Replaying a recording leaves the same rows as appending the turns, ids and times apart."""
    turns = SampleTexts().turns(6)
    scopes = [Scope(1, f"user-{number}", "thread") for number in range(2)]
    recording = await record(turns, scopes)
    bare = BareSqlite(tmp_path / "bare.db")
    for turn in recording.turns:
        bare.append(prepare_calls(turn, "sqlite"))
    bare.close()
    async with open_store(f"sqlite:///{tmp_path}/ours.db") as ours:
        for number, turn in enumerate(turns):
            await ours.append_turn(messages_of(turn), scope=scopes[number % 2])
        async with open_store(f"sqlite:///{tmp_path}/bare.db") as theirs:
            for scope in scopes:
                assert await _contents(ours, scope) == await _contents(theirs, scope)


async def _contents(store: Store, scope: Scope) -> list[object]:
    messages = await store.last_messages(None, scope=scope)
    assert messages
    rows = (await store.search_rows(scope=scope)).rows
    assert len(rows) == len(messages)
    thread = await store.get_thread(scope=scope)
    assert thread is not None
    return [
        [(message.text, message.role, message.position, message.number) for message in messages],
        [(row.number, row.term_hashes, row.term_counts) for row in rows],
        (thread.message_count, thread.title),
    ]


async def test_a_recorded_look_at_the_last_ten_finds_ten(tmp_path: Path) -> None:
    """The bare driver's reading is no empty look-up."""
    scope = Scope(1, "user", "thread")
    recording = await record(SampleTexts().turns(8), [scope])
    assert [statement.name for statement in recording.last_ten] == ["messages_up_to"]
    bare = BareSqlite(tmp_path / "bare.db")
    for turn in recording.turns:
        bare.append(prepare_calls(turn, "sqlite"))
    assert [len(rows) for rows in bare.read(prepare_calls(recording.last_ten, "sqlite"))] == [10]
    bare.close()


async def test_a_filled_file_is_a_store_like_any_other(sqlite_url: str) -> None:
    """Threads, messages and search rows are whole, and the store can go on from there."""
    fill_sqlite(Path(sqlite_url.removeprefix("sqlite:///")), make_crowd(1_000), ignore_progress)
    async with open_store(sqlite_url) as store:
        await _check_filled(store)


@pytest.mark.postgres
async def test_a_filled_server_is_a_store_like_any_other(postgres_url: str) -> None:
    """The rows that went in by COPY are seen under their tenant, and only there."""
    await fill_postgres(postgres_url, make_crowd(1_000), ignore_progress)
    async with open_store(postgres_url) as store:
        await _check_filled(store)


async def test_a_user_with_many_messages_fills_one_thread_after_another(sqlite_url: str) -> None:
    """Beside others, and no thread is longer than theirs; every message can get a vector."""
    owners = stores.make_owners(250, 300)
    fill_sqlite(Path(sqlite_url.removeprefix("sqlite:///")), owners, ignore_progress)
    async with open_store(sqlite_url) as store:
        await stores.add_vectors(store, "model")
        found = await store.search_rows(scope=stores.SEARCHED)
        assert len(found.rows) == len(found.vectors) == 250
        lengths = [thread.message_count for thread in await store.list_threads(scope=stores.SEARCHED)]
        assert sorted(lengths) == [50, MESSAGES_PER_USER, MESSAGES_PER_USER]
        assert len((await store.search_rows(scope=scope_of(2))).rows) == MESSAGES_PER_USER


async def _check_filled(store: Store) -> None:
    assert count_users(1_000) == 10
    for user in range(10):
        scope = scope_of(user)
        messages = await store.last_messages(None, scope=scope)
        assert [message.position for message in messages] == list(range(1, MESSAGES_PER_USER + 1))
        assert len((await store.search_rows(scope=scope)).rows) == MESSAGES_PER_USER
        thread = await store.get_thread(scope=scope)
        assert thread is not None
        assert thread.message_count == MESSAGES_PER_USER
    assert not await store.last_messages(None, scope=Scope(2, scope_of(0).user_id, "conversation"))
    placed = await store.append_turn(messages_of(("one more", "yes")), scope=scope_of(3))
    assert [place.position for place in placed] == [101, 102]


def test_facts_name_no_machine() -> None:
    """The facts say how fast the disk is, and hold neither the host's name nor a path."""
    found = describe_machine(choose_disk_folder())
    assert float(str(found["fdatasync_ms"])) > 0
    assert isinstance(found["cores"], int)
    assert "/" not in str(found)


@pytest.mark.parametrize("folder", ["/proc", "/proc/self"])
def test_the_file_system_is_that_of_the_nearest_mount(folder: str) -> None:
    """A folder below a mount has its kind; a system that does not tell has an unknown one."""
    expected = "proc" if Path("/proc/self/mountinfo").exists() else "unknown"
    assert find_file_system(Path(folder)) == expected


REPORT = Report(
    "store",
    {
        "cores": 2,
        "architecture": "x86_64",
        "system": "Linux",
        "python": "3.11.7",
        "file_system": "ext4",
        "fdatasync_ms": 0.35,
        "load_average": 0.1,
        "versions": {"apsw": "3.54"},
    },
    Part(
        [Goal("append", "≤ 1.5 times", 1.234, met=True), Goal("read", "≤ 2 times", None, met=False)],
        {},
        ["n"],
    ),
    date="2026-01-31",
)


def test_the_page_gets_new_tables_and_keeps_its_text(tmp_path: Path) -> None:
    """Only what is between the markers changes, and writing it again changes nothing."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- store: begin -->\nold\n<!-- store: end -->\n\nBy hand.\n", "utf-8")
    write_page(page, REPORT)
    text = page.read_text("utf-8")
    assert "old" not in text
    assert text.startswith("# Title\n\n<!-- store: begin -->\n\nMeasured on 2026-01-31")
    assert text.endswith("<!-- store: end -->\n\nBy hand.\n")
    assert "| append | ≤ 1.5 times | 1.23 | - | - | - | yes |" in text
    assert "| read | ≤ 2 times | not measured | - | - | - | **no** |" in text
    write_page(page, REPORT)
    assert page.read_text("utf-8") == text


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    """There is no place for the tables, so nothing is written."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n", "utf-8")
    with pytest.raises(InvalidArgumentError, match="lacks the markers"):
        write_page(page, REPORT)
    assert page.read_text("utf-8") == "# Title\n"
