"""`recollect recall` and `recollect reindex`, run as a user would run them."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.cli.commands import answer, invoke
from tests.support.embedders import Words

from recollect import Memory, Message, MultilingualEmbedder, Scope, open_store
from recollect.recall.embedding.embedder import as_embedder
from recollect.recall.embedding.indexer import reindex, users_of
from recollect.recall.embedding.minilm import MiniLM
from recollect.storage.store import Store

ADA = ("--user", "ada", "--tenant", "1")
TALK = ("My sister plays the cello.", "The train leaves at nine.", "We painted the wall.")
THEN = datetime(2024, 3, 8, 9, 5, tzinfo=UTC)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file in which user `ada` of tenant 1 said some things, embedded by a model of before."""
    asyncio.run(_fill(sqlite_url, Words("before"), "ada"))
    return sqlite_url


async def _fill(url: str, embedder: object, *users: str, texts: tuple[str, ...] = TALK) -> None:
    async with Memory(url, tenant_id=1, resource_id="x", semantic_recall=True, embedder=embedder) as memory:
        for user in users:
            await memory.save_messages(
                [Message("user", text, id=f"m{n}", created_at=THEN) for n, text in enumerate(texts)],
                resource_id=user,
                thread_id="trip",
            )
        if embedder is not None:
            await memory.settled()


def models(url: str, user: str = "ada") -> list[str]:
    """Return the models of a user's vectors."""

    async def read() -> list[str]:
        async with open_store(url) as store:
            rows = await store.search_rows(scope=Scope(1, user))
            return [row.model_id for row in rows.vectors]

    return asyncio.run(read())


def test_matches_are_shown_when_searched_by_words(url: str) -> None:
    """A line says when, where and who, the next how relevant it is."""
    result = invoke("recall", "cello", "--store", url, *ADA, "--text-only", "-k", "1")
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert first == "2024-03-08 09:05 trip user: My sister plays the cello."
    assert second.startswith("  relevance 1.00, score ")


def test_matches_are_json_when_asked_for(url: str) -> None:
    """Programs get ids, scores and the text."""
    found = answer("recall", "cello", "--store", url, *ADA, "--text-only", "--top-k", "2")
    assert found["searched"] == 3
    assert found["hits"][0]["id"] == "m0"
    assert found["hits"][0]["why"] is None


def test_reasons_are_shown_when_asked_for(url: str) -> None:
    """Scores of both retrievers, the parts of the sum, matched words, and what just missed."""
    result = invoke("recall", "cello", "--store", url, *ADA, "--text-only", "--explain", "-k", "1")
    assert result.exit_code == 0, result.output
    for words in (
        "text ",
        "(rank 1), vector none",
        "score = words",
        "matched: cello",
        "Just missed:",
        "m1: ",
    ):
        assert words in result.stdout
    found = answer("recall", "cello", "--store", url, *ADA, "--text-only", "--explain")
    assert found["hits"][0]["why"]["matched_terms"] == ["cello"]


def test_misses_are_shown_when_nothing_is_relevant_enough(url: str) -> None:
    """A threshold that leaves nothing over says what it kept out."""
    arguments = (
        "recall",
        "cello zither",
        "--store",
        url,
        *ADA,
        "--text-only",
        "--threshold",
        "0.9",
        "--explain",
    )
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Nothing found.\n")
    assert "m0: less relevant than 0.9" in result.stdout


def test_no_rank_is_shown_for_words_that_are_not_there(url: str) -> None:
    """A neighbour of a match has no rank by its words."""
    result = invoke("recall", "cello", "--store", url, *ADA, "--text-only", "--explain")
    assert "None" not in result.stdout
    assert "text none, vector none" in result.stdout


def test_note_is_shown_when_nothing_is_found(url: str) -> None:
    """What was different from usual is said also where there are no hits."""
    result = invoke("recall", "xylophone " + "zither " * 1_000, "--store", url, *ADA, "--text-only")
    assert result.exit_code == 0, result.output
    assert "only the first 4,000 characters" in result.stdout
    assert "Nothing found." in result.stdout


@pytest.mark.parametrize("question", ["", "  ", "xylophone", "\udce9"])
def test_nothing_is_found_when_nobody_said_it(url: str, question: str) -> None:
    """An empty question, an unknown word and broken bytes find nothing, and that is no error."""
    result = invoke("recall", "--store", url, *ADA, "--text-only", "--", question)
    assert (result.exit_code, result.stdout) == (0, "Nothing found.\n")


def test_other_places_are_not_searched(url: str) -> None:
    """Another tenant, user, app, project or thread has none of it."""
    for other in (
        ("--user", "ada", "--tenant", "2"),
        ("--user", "ada", "--system"),
        ("--user", "bob", "--tenant", "1"),
        (*ADA, "--app", "x"),
        (*ADA, "--project", "x"),
        (*ADA, "--thread", "x"),
    ):
        assert answer("recall", "cello", "--store", url, *other, "--text-only")["hits"] == []
    assert (
        len(
            answer("recall", "cello", "--store", url, *ADA, "--thread", "trip", "--text-only", "-k", "1")[
                "hits"
            ]
        )
        == 1
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*ADA, "--top-k", "0"), 2, "top_k: must be 1 or more"),
        ((*ADA, "--top-k", "201"), 2, "top_k: must be 200 or less"),
        ((*ADA, "--threshold", "1.5"), 2, "threshold: must be a number from 0 to 1"),
        ((*ADA, "--threshold", "nan"), 2, "threshold: must be a number from 0 to 1"),
        ((*ADA, "--context", "21"), 2, "message_range: must be 20 or less"),
        ((*ADA, "--role", "tool"), 2, "role: must be one of user, assistant, not 'tool'"),
        ((*ADA, "--thread", ""), 2, "thread_ids: must not be empty"),
        ((*ADA, "--after", "last week"), 2, "after: must be a date or a time such as 2026-03-31"),
        ((*ADA, "--before", "31.3.2026"), 2, "before: must be a date or a time such as 2026-03-31"),
        ((*ADA, "--after", ""), 2, "after: must be a date or a time such as 2026-03-31"),
        ((*ADA, "--as-of", "now"), 2, "as_of: must be a date or a time such as 2026-03-31"),
        ((*ADA, "--after", "2026-02-01", "--before", "2026-01-01"), 2, "swap the two"),
        ((*ADA, "--metadata", "topic"), 2, "metadata: must look like KEY=VALUE, not 'topic'"),
        ((*ADA, "--metadata", "k=[1]"), 2, "metadata.k: must be text, a number, a bool or None, not list"),
        ((*ADA, "--metadata", "k=1", "--metadata", "k=2"), 2, "metadata: has 'k' twice"),
        (("--user", "ada"), 2, "tenant: give either"),
        (ADA, 1, "recollect reindex"),
    ],
)
def test_recall_fails_with_one_line(url: str, arguments: tuple[str, ...], code: int, words: str) -> None:
    """A wrong option, and vectors of another model, are one clear line."""
    result = invoke("recall", "cello", "--store", url, *arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


def test_terminal_is_not_steered_by_what_was_said(sqlite_url: str) -> None:
    """Control characters of a message, and markup, are shown as what they are."""
    asyncio.run(_fill(sqlite_url, None, "ada", texts=("cello \x1b[2J[red]bold[/red]",)))
    result = invoke("recall", "cello", "--store", sqlite_url, *ADA, "--text-only")
    assert "\x1b" not in result.stdout
    assert "[red]bold[/red]" in result.stdout


def test_recall_works_when_everything_was_reindexed(url: str) -> None:
    """After `reindex` the built-in embedder finds by meaning; a second run has nothing left to do."""
    assert answer("reindex", "--store", url, "--tenant", "1") == {"users": 1, "messages": 3}
    assert set(models(url)) == {MiniLM.model_id}
    found = answer("recall", "Which musical instrument?", "--store", url, *ADA, "-k", "1")
    assert [hit["id"] for hit in found["hits"]] == ["m0"]
    result = invoke("reindex", "--store", url, "--tenant", "1")
    assert result.stdout == "Embedded 0 messages of 1 users.\n"


@pytest.mark.xdist_group("multilingual embedder")
def test_multilingual_embedder_is_used_when_named(url: str) -> None:
    """After `reindex --embedder multilingual` a question in another language finds what was said."""
    name = ("--embedder", "multilingual")
    assert answer("reindex", "--store", url, "--tenant", "1", *name) == {"users": 1, "messages": 3}
    assert set(models(url)) == {MultilingualEmbedder.model_id}
    found = answer("recall", "我妹妹演奏什么乐器", "--store", url, *ADA, *name, "-k", "1")
    assert ([hit["id"] for hit in found["hits"]], found["notes"]) == (["m0"], [])


def test_one_user_is_reindexed_when_named(sqlite_url: str) -> None:
    """`--user` leaves the others alone; other tenants are never touched."""
    asyncio.run(_fill(sqlite_url, Words("before"), "ada", "bob"))
    assert answer("reindex", "--store", sqlite_url, *ADA) == {"users": 1, "messages": 3}
    assert set(models(sqlite_url, "bob")) == {"before"}
    assert answer("reindex", "--store", sqlite_url, "--system") == {"users": 0, "messages": 0}
    assert answer("reindex", "--store", sqlite_url, "--tenant", "1") == {"users": 2, "messages": 3}


def test_reindex_goes_on_where_it_was_broken_off(sqlite_url: str) -> None:
    """What an earlier run embedded is not embedded again."""
    texts = tuple(f"Message number {n}." for n in range(70))
    asyncio.run(_fill(sqlite_url, Words("before"), "ada", texts=texts))
    embedder = Words("after")

    async def run(*, break_off: bool) -> int:
        async with open_store(sqlite_url) as store:
            return await _reindex(store, embedder, break_off=break_off)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(break_off=True))
    assert sorted(set(models(sqlite_url))) == ["after", "before"]
    done = len(embedder.read)
    assert 0 < done < 70
    assert asyncio.run(run(break_off=False)) == 70 - done
    assert len(embedder.read) == 70
    assert models(sqlite_url) == ["after"] * 70


async def _reindex(store: Store, embedder: Words, *, break_off: bool) -> int:
    counts: list[int] = []

    def show(done: int, total: int) -> None:
        assert done <= total
        counts.append(done)
        if break_off:
            raise KeyboardInterrupt

    users = await users_of(store, 1)
    done = await reindex(store, as_embedder(embedder), users, tenant_id=1, show=show)
    assert counts == sorted(counts)
    assert counts[-1] == done.messages
    return done.messages


def test_reindex_fails_with_one_line(url: str) -> None:
    """A wrong place, a missing tenant and an unknown model are one clear line."""
    for arguments, code, words in (
        (("--store", url), 2, "tenant: give either"),
        (("--store", f"{url}x", "--system"), 3, "there is no such file"),
        (("--store", url, "--tenant", "1", "--embedder", "nowhere:model"), 1, "nowhere"),
    ):
        result = invoke("reindex", *arguments)
        assert result.exit_code == code, result.output
        (line,) = result.stderr.splitlines()
        assert words in line
