"""Reading conversations in the format of LoCoMo: sessions of turns, and questions with their evidence.

The licence of the data (CC BY-NC) does not allow us to ship them, so they are read from a path.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from recollect.errors import InvalidArgumentError
from recollect.messages import Message

ADVERSARIAL = 5
"""The category of questions whose premise is wrong; the published figures leave it out."""

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_TIME = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Session:
    """One session: its thread and its messages, with the ids of the data."""

    thread_id: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, the messages that answer it, and its category."""

    text: str
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of two people over months."""

    id: str
    names: tuple[str, str]
    sessions: list[Session]
    questions: list[LabelledQuestion]

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return sum(len(session.messages) for session in self.sessions)


def read_conversations(path: Path) -> list[Conversation]:
    """Read a file of conversations; unknown evidence is dropped, and so are questions without evidence."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidArgumentError("data", f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidArgumentError("data", f"{path} is not UTF-8 text") from error
    try:
        found = [_read_conversation(item) for item in json.loads(text)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            "data", f"{path} is not in the format of LoCoMo: {type(error).__name__}: {error}"
        ) from error
    _check_conversations(found, path)
    return found


def _check_conversations(found: list[Conversation], path: Path) -> None:
    if not any(conversation.questions for conversation in found):
        raise InvalidArgumentError("data", f"{path} has no question with evidence in its conversations")
    if len({conversation.id for conversation in found}) < len(found):
        raise InvalidArgumentError("data", f"{path} has two conversations with one sample_id")


def _read_conversation(item: dict[str, Any]) -> Conversation:
    data = cast("dict[str, Any]", item["conversation"])
    names = (str(data["speaker_a"]), str(data["speaker_b"]))
    sessions = sorted(
        _read_sessions(data, names), key=lambda session: int(session.thread_id.partition("-")[2])
    )
    known = {message.id for session in sessions for message in session.messages}
    questions = [asked for asked in map(_read_question, item["qa"]) if asked.evidence & known]
    return Conversation(
        str(item["sample_id"]),
        names,
        sessions,
        [LabelledQuestion(asked.text, asked.evidence & known, asked.category) for asked in questions],
    )


def _read_sessions(data: dict[str, Any], names: tuple[str, str]) -> Iterator[Session]:
    for key, turns in data.items():
        found = _SESSION.fullmatch(key)
        if found and turns:
            begun = datetime.strptime(data[f"{key}_date_time"], _TIME).replace(tzinfo=UTC)
            messages = [_read_message(turn, names, begun, place) for place, turn in enumerate(turns)]
            yield Session(f"session-{found[1]}", messages)


def _read_message(turn: dict[str, Any], names: tuple[str, str], begun: datetime, place: int) -> Message:
    caption = turn.get("blip_caption")
    text = f"{turn['text']} [{caption}]" if caption else turn["text"]
    return Message(
        "user" if turn["speaker"] == names[0] else "assistant",
        text,
        id=turn["dia_id"],
        metadata={"name": turn["speaker"]},
        created_at=begun + timedelta(seconds=30 * place),
    )


def _read_question(item: dict[str, Any]) -> LabelledQuestion:
    named = " ".join(map(str, item.get("evidence") or ()))
    evidence = frozenset(f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(named))
    return LabelledQuestion(str(item["question"]), evidence, int(item["category"]))
