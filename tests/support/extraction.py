"""Turns for tests of `WorkingMemoryProcessor`: a model with scripted answers, and what the trace says."""

from typing import Any

from pydantic import BaseModel
from tests.support.agents import ADA
from tests.support.contexts import new_run

from recollect import Message, Scope
from recollect.pipeline.context import RunState

HERS = Scope(None, "ada")
"""The user's own working memory, in a run with the ids `ADA`."""

TEMPLATE = "Name: {{name}}\nCity: {{city}}"


class Profile(BaseModel):
    """A user."""

    name: str
    city: str | None = None
    age: int = 0


class Answers:
    """A model that gives answers in order, and remembers what it was asked; an exception is raised."""

    def __init__(self, *answers: object) -> None:
        """Take the answers."""
        self._answers = [*answers]
        self.prompts: list[str] = []
        self.models: list[object] = []
        self.schemas: list[dict[str, Any]] = []

    async def __call__(self, prompt: str, output_type: type[Any], *, model: object | None = None) -> Any:  # noqa: ANN401 - of the type
        """Answer."""
        assert issubclass(output_type, dict)
        self.schemas.append(output_type.json_schema)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType] - set by extraction
        self.prompts.append(prompt)
        self.models.append(model)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def run_with(*answers: object) -> tuple[RunState, Answers]:
    """Return a run whose model gives these answers."""
    run, model = new_run(**ADA), Answers(*answers)
    run.ask = model
    return run, model


def turn(user: str = "I am Ann, from Rome.", assistant: str = "Hello Ann!") -> list[Message]:
    """Return a turn."""
    return [Message("user", user), Message("assistant", assistant)]


def error_of(run: RunState) -> str | None:
    """Return the error of the commit in a run's trace."""
    entry = run.trace.find("tested", "commit")
    return None if entry is None else entry.error


def notes_of(run: RunState) -> list[str]:
    """Return the notes of the commit in a run's trace."""
    entry = run.trace.find("tested", "commit")
    return [] if entry is None else entry.notes
