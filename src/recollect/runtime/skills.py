"""Skills: Markdown files that the model sees for one run and that are never stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import Processor
from recollect.pipeline.prompt_order import insert
from recollect.validation import check_text

SKILL_FILE = "SKILL.md"
"""The file in a skill's folder that holds its text."""

SKILLS = "skills"
"""The name under which a run's skills are given to its processors."""

_MAX_NAME_LENGTH = 100
_MAX_BYTES = 256 * 1024


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
        try:
            found = [file.parent.name for file in self._path.glob(f"*/{SKILL_FILE}") if file.is_file()]
        except OSError:  # a folder that cannot be looked into
            return []
        return sorted(filter(_is_name, found))

    def read(self, names: Sequence[str]) -> list[Skill]:
        """Return skills by name, each once; an unknown one is an error before anything is asked."""
        if isinstance(names, str):
            raise InvalidArgumentError("skills", f"must be a list of names; write [{names!r:.60}] for one")
        return [self._read_one(name) for name in dict.fromkeys(names)]

    def _read_one(self, name: object) -> Skill:
        if name not in self.names() or not isinstance(name, str):  # so nothing outside can be named
            known = ", ".join(self.names()) or f"none: there is no */{SKILL_FILE} in {self._path.name!r}"
            raise InvalidArgumentError("skills", f"{name!r:.60} is not a skill here; known: {known}")
        try:
            with (self._path / name / SKILL_FILE).open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
            if len(raw) > _MAX_BYTES:
                raise InvalidArgumentError("skills", f"{name!r} is larger than {_MAX_BYTES:,} bytes")
            text = raw.decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                "skills", f"{name!r} cannot be read: {type(error).__name__}"
            ) from error
        if not text:
            raise InvalidArgumentError("skills", f"{name!r} is empty")
        return Skill(name, check_text(text, f"skills: {name!r}"))


class SkillsProcessor(Processor):
    """Shows the model the skills of a run, after the guards; they are never part of the turn."""

    id = "skills"
    edits = "view"
    observes: ClassVar[bool] = True

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put one message for each skill before the conversation."""
        skills = cast("Sequence[Skill]", ctx.context.get(SKILLS, ()))
        return insert(messages, [_make_message(skill, ctx.run_id) for skill in skills])


def _is_name(name: str) -> bool:
    """Whether a folder's name can stand in a prompt and in an id; it may be of any script."""
    return name.isprintable() and not name.startswith(".") and len(name) <= _MAX_NAME_LENGTH


def _make_message(skill: Skill, run_id: str) -> Message:
    text = f"The skill {skill.name!r} is active for this request:\n\n{skill.text}"
    return Message("system", text, id=f"{run_id}:skill:{skill.name}", origin="system", kind="skill")
