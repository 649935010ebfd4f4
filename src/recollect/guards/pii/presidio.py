"""An adapter for Presidio, an optional dependency, which finds names, places and other entities."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from recollect.errors import RecollectError
from recollect.guards.detection import Detection

ENTITIES: Mapping[str, str] = {
    "PERSON": "name",
    "LOCATION": "place",
    "NRP": "group",
    "ORGANIZATION": "organization",
}
"""What Presidio calls the kinds, and what we call them; others keep their names in small letters."""


class Engine(Protocol):
    """Something that finds what patterns cannot, such as names."""

    def find(self, text: str) -> Sequence[Detection]:
        """Return what is in a whole text."""
        ...


class Analyzer(Protocol):
    """What is used of Presidio's `AnalyzerEngine`."""

    def analyze(self, text: str, language: str, *, entities: list[str]) -> Sequence[Any]:
        """Return results with `entity_type`, `start`, `end` and `score`."""
        ...


class PresidioEngine:
    """Asks Presidio for names and places, or for other entities that it knows."""

    def __init__(
        self,
        analyzer: Analyzer | None = None,
        *,
        language: str = "en",
        entities: Sequence[str] = ("PERSON", "LOCATION"),
        threshold: float = 0.5,
    ) -> None:
        """Take an `AnalyzerEngine`, or make one, which needs `presidio-analyzer` and a model for it."""
        self._analyzer = analyzer or _new_analyzer()
        self._language = language
        self._entities = list(entities)
        self._threshold = threshold

    def find(self, text: str) -> list[Detection]:
        """Return the entities that are likely enough."""
        results = self._analyzer.analyze(text, self._language, entities=self._entities)
        return [
            Detection(
                ENTITIES.get(str(item.entity_type), str(item.entity_type).lower()),
                item.start,
                item.end,
                item.score,
            )
            for item in results
            if item.score >= self._threshold
        ]


def _new_analyzer() -> Analyzer:
    try:
        module = importlib.import_module("presidio_analyzer")
    except ImportError as error:
        raise RecollectError(
            "PresidioEngine needs presidio: pip install presidio-analyzer, or give it an analyzer"
        ) from error
    return cast("Analyzer", module.AnalyzerEngine())
