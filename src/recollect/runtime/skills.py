"""Skills: Markdown files that are sent along for one run and never kept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message
from recollect.processors.base import Processor, RunContext

SKILL_FILE = "SKILL.md"
"""The file in a skill's folder that holds its text."""

SKILLS = "skills"
"""The name under which a run's skills are given to its processors."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LARGEST = 256 * 1024


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was read: its name, and what the model is told."""

    name: str
    text: str


class SkillFolder:
    """A folder with a folder for each skill."""

    def __init__(self, path: Path) -> None:
        """Look in this folder; it need not be there."""
        self._path = path

    def names(self) -> list[str]:
        """Return the skills that there are."""
        return sorted(file.parent.name for file in self._path.glob(f"*/{SKILL_FILE}") if file.is_file())

    def read(self, names: Sequence[str]) -> list[Skill]:
        """Return skills by name, each once; an unknown one is an error before anything is asked."""
        if isinstance(names, str):
            raise InvalidArgumentError("skills", f"must be a list of names; write [{names!r:.60}] for one")
        return [self._one(name) for name in dict.fromkeys(names)]

    def _one(self, name: object) -> Skill:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name not in self.names():
            known = ", ".join(self.names()) or f"none: there is no */{SKILL_FILE} in {self._path.name!r}"
            raise InvalidArgumentError("skills", f"{name!r:.60} is not a skill here; known: {known}")
        try:
            raw = (self._path / name / SKILL_FILE).read_bytes()
            text = raw.decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                "skills", f"{name!r} cannot be read: {type(error).__name__}"
            ) from error
        if not text or len(raw) > _LARGEST:
            raise InvalidArgumentError("skills", f"{name!r} is empty, or larger than {_LARGEST:,} bytes")
        return Skill(name, text)


class SkillsProcessor(Processor):
    """Shows the model the skills of a run, behind the guards; they are never part of the turn."""

    id = "skills"
    edits = "view"
    observes: ClassVar[bool] = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put one message for each skill before the conversation."""
        skills = cast("Sequence[Skill]", ctx.context.get(SKILLS, ()))
        return [*(_message(skill, ctx.run_id) for skill in skills), *messages]


def is_skill(message: Message) -> bool:
    """Whether a message is a skill's text."""
    return message.origin == "system" and ":skill:" in message.id


def _message(skill: Skill, run_id: str) -> Message:
    text = f"The skill {skill.name!r} is active for this request:\n\n{skill.text}"
    return Message("system", text, id=f"{run_id}:skill:{skill.name}", origin="system")
