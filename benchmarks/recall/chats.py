"""Reading chats in the format of LoCoMo: sessions of turns, and questions with their evidence.

The licences of such data do not allow us to ship them, so they are read from paths, gzipped or not. A
question may say `before`: it was asked before that message was written.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
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
_ROLES = ("user", "assistant")  # no names: a program stores none for them


@dataclass(frozen=True, slots=True)
class Session:
    """One session: its thread and its messages, with the ids of the data."""

    thread_id: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, the messages that answer it, its category, and the session before which it was asked."""

    text: str
    evidence: frozenset[str]
    category: int
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The sessions of two people, or of a user with an assistant, over months."""

    id: str
    sessions: list[Session]
    questions: list[LabelledQuestion]

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return sum(len(session.messages) for session in self.sessions)

    def replay(self) -> Iterator[tuple[Session | None, list[LabelledQuestion]]]:
        """Yield each session with the questions that were asked before it, then None with all others."""
        for session in self.sessions:
            yield session, [asked for asked in self.questions if asked.before == session.thread_id]
        yield None, [asked for asked in self.questions if asked.before is None]


def read_sets(paths: Sequence[Path]) -> dict[str, list[Conversation]]:
    """Read files of chats, each a set with the name of its file."""
    found = {path.name.partition(".")[0]: read_conversations(path) for path in paths}
    if len(found) < len(paths):
        raise InvalidArgumentError("data", "two files have the same name; rename one of them")
    return found


def read_conversations(path: Path) -> list[Conversation]:
    """Read a file of conversations; unknown evidence is dropped, and so are questions without evidence."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidArgumentError("data", f"{path} cannot be read: {error}") from error
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
    places = {message.id: place for place, message in enumerate(m for s in sessions for m in s.messages)}
    threads = {message.id: session.thread_id for session in sessions for message in session.messages}
    questions = [_read_question(asked, places, threads) for asked in item["qa"]]
    return Conversation(str(item["sample_id"]), sessions, [asked for asked in questions if asked.evidence])


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
        metadata={} if names == _ROLES else {"name": turn["speaker"]},
        created_at=begun + timedelta(seconds=30 * place),
    )


def _read_question(item: dict[str, Any], places: dict[str, int], threads: dict[str, str]) -> LabelledQuestion:
    named = " ".join(map(str, item.get("evidence") or ()))
    evidence = {f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(named)}
    before = item.get("before")
    end = len(places) if before is None else places[before]
    return LabelledQuestion(
        str(item["question"]),
        frozenset(name for name in evidence if places.get(name, end) < end),
        int(item["category"]),
        None if before is None else threads[before],
    )
