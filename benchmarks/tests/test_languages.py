"""The facts in several languages, and what is measured with them."""

import json
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.recall.languages import (
    LANGUAGE_CUTS,
    LANGUAGES,
    Figures,
    compute_recall,
    make_threads,
    measure_embedders,
    measure_languages,
    read_facts,
)
from recollect.recall.embedding.embedder import default_embedder
from recollect.recall.embedding.multilingual import MultilingualEmbedder

SYSTEMS = ["words", "vectors", "hybrid", "multilingual vectors", "multilingual hybrid"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_facts_of_english(language: str) -> None:
    """Ids, their order, and which facts have a reply are equal, so that figures can be compared."""
    facts, reference = read_facts(language), read_facts("en")
    assert [(fact.id, fact.reply is None) for fact in facts] == [
        (fact.id, fact.reply is None) for fact in reference
    ]
    assert len({fact.id for fact in facts}) == 60
    texts = [text for fact in facts for text in (fact.said, fact.asked, fact.beside)]
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_a_message_beside_a_fact_is_in_another_thread() -> None:
    """Next to its fact it would lend the fact its words."""
    facts = read_facts("en")
    threads = [{message.id for message in thread} for thread in make_threads(facts)]
    assert sum(map(len, threads)) == 2 * len(facts) + sum(fact.reply is not None for fact in facts)
    for fact in facts:
        (told,) = [thread for thread in threads if fact.id in thread]
        assert f"{fact.id}-beside" not in told
        assert (f"{fact.id}-reply" in told) is (fact.reply is not None)


def test_recall_counts_the_facts_among_the_first() -> None:
    """A fact in the third place counts for 5 and 10, one that was not found for none."""
    found = {"tea": ["tea", "dog"], "dog": ["tea", "knee", "dog"], "knee": ["tea"], "eyes": []}
    assert compute_recall(found) == {"recall_at_1": 0.25, "recall_at_5": 0.5, "recall_at_10": 0.5}


@pytest.mark.anyio
async def test_each_system_is_measured_in_each_language(tmp_path: Path) -> None:
    """The built-in embedder and the store are the real ones; in English most facts are found."""
    figures = await measure_languages(tmp_path, default_embedder(), ["en"])
    assert list(figures) == ["en"]
    assert list(figures["en"]) == ["words", "vectors", "hybrid"]
    for measured in figures["en"].values():
        shares = [measured[f"recall_at_{cut}"] for cut in LANGUAGE_CUTS]
        assert shares == sorted(shares)
        assert 0.6 < shares[-1] <= 1


@pytest.mark.xdist_group("multilingual embedder")
def test_command_prints_each_language_by_each_embedder() -> None:
    """In Chinese the multilingual embedder finds far more; for people it is a table."""
    arguments = ["recall", "--quality-only", "--languages"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["languages"]
    assert list(figures) == list(LANGUAGES)
    assert all(list(systems) == SYSTEMS for systems in figures.values())
    chinese = {name: found["recall_at_5"] for name, found in figures["zh"].items()}
    assert chinese["multilingual hybrid"] > chinese["hybrid"] + 0.1
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "multilingual hybrid" in shown.stdout


@pytest.mark.anyio
async def test_a_note_says_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the built-in embedder is measured alone."""
    monkeypatch.setattr(MultilingualEmbedder, "is_installed", lambda: False)
    part = await measure_embedders(tmp_path, lambda _: None, ["en"])
    assert any("recollect[multilingual]" in note for note in part.notes)
    figures = cast("Figures", part.figures["languages"])
    assert list(figures["en"]) == SYSTEMS[:3]
