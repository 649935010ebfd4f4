"""The filters of `recollect recall`, given as a user would give them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.commands import answer, invoke

from recollect import Memory, Message

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
VALUES: tuple[object, ...] = (1, 1.0, True, None, "1", "007", "a=b", "NaN")
"""The metadata of the messages m0, m1 and so on, which are a day apart."""


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file in which ada and the assistant spoke in turn, two messages in each thread."""
    asyncio.run(_fill(sqlite_url))
    return sqlite_url


async def _fill(url: str) -> None:
    async with Memory(url, tenant_id=1, user_id="ada", embedder=None) as memory:
        for n, value in enumerate(VALUES):
            role, time = ("assistant" if n % 2 else "user"), START + n * timedelta(days=1)
            said = Message(role, f"cello {n}", id=f"m{n}", metadata={"k": value, "n": n}, created_at=time)
            await memory.save_messages([said], thread_id=f"t{n // 2}")


def find(url: str, *options: str) -> list[str]:
    """Return the ids of what is found, in order."""
    ada = ("--user", "ada", "--tenant", "1")
    found = answer("recall", "cello", "--store", url, *ada, "--text-only", "-k", "20", *options)
    return sorted(hit["id"] for hit in found["hits"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), range(8)),
        (("--role", "user"), (0, 2, 4, 6)),
        (("--role", "assistant"), (1, 3, 5, 7)),
        (("--thread", "t1"), (2, 3)),
        (("--thread", "t1", "--thread", "t3"), (2, 3, 6, 7)),
        (("--after", "2026-03-07"), (6, 7)),
        (("--after", "2026-03-07T09:00"), (6, 7)),
        (("--after", "2026-03-07T09:00:00.000001Z"), (7,)),
        (("--before", "2026-03-02T10:00+01:00"), (0,)),
        (("--after", "2026-03-03", "--before", "2026-03-05"), (2, 3)),
        (("--as-of", "2026-03-03"), (0, 1)),
        (("--metadata", "k=1"), (0,)),
        (("--metadata", "k=1.0"), (1,)),
        (("--metadata", "k=true"), (2,)),
        (("--metadata", "k=null"), (3,)),
        (("--metadata", 'k="1"'), (4,)),
        (("--metadata", "k=007"), (5,)),
        (("--metadata", "k=a=b"), (6,)),
        (("--metadata", "k=NaN"), (7,)),
        (("--metadata", "k=1", "--metadata", "n=0"), (0,)),
        (("--metadata", "k=1", "--metadata", "n=1"), ()),
        (("--role", "user", "--thread", "t1", "--after", "2026-03-01", "--metadata", "k=true"), (2,)),
    ],
)
def test_only_what_passes_is_found(url: str, options: tuple[str, ...], expected: tuple[int, ...]) -> None:
    """Each option narrows the search, and several narrow it together."""
    assert find(url, *options) == [f"m{n}" for n in expected]


def test_messages_around_a_match_are_marked_as_context(url: str) -> None:
    """They are shown when asked for, whatever the filter, and are not taken for matches."""
    arguments = (
        "recall",
        "cello",
        "--store",
        url,
        "--user",
        "ada",
        "--tenant",
        "1",
        "--text-only",
        "-C",
        "1",
    )
    result = invoke(*arguments, "--role", "assistant", "--thread", "t1")
    lines = result.stdout.splitlines()
    assert lines[0] == "  context 2026-03-03 09:00 user: cello 2"
    assert lines[1] == "2026-03-04 09:00 t1 assistant: cello 3"
    assert len(lines) == 3
    (hit,) = answer(*arguments, "--role", "assistant", "--thread", "t1")["hits"]
    assert [(one["id"], one["is_context"], one["text"]) for one in hit["before"]] == [("m2", True, "cello 2")]
    assert hit["after"] == []
