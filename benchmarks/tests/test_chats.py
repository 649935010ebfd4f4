"""Reading conversations in LoCoMo's form, with the slips that the published file has."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall.chats import Conversation, read_conversations
from recollect.errors import InvalidArgumentError


def _item(evidence: list[str], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    conversation = {
        "speaker_a": "Ida",
        "speaker_b": "Jon",
        "session_10_date_time": "12:30 am on 1 March, 2024",
        "session_10": [{"speaker": "Jon", "dia_id": "D10:1", "text": "Look.", "blip_caption": "a red kite"}],
        "session_9_date_time": "1:00 pm on 29 February, 2024",
        "session_9": [
            {"speaker": "Ida", "dia_id": "D9:1", "text": "The kite is ready."},
            {"speaker": "Jon", "dia_id": "D9:2", "text": "Then let us go."},
        ],
        "session_11_date_time": "1:00 pm on 2 March, 2024",
        "session_11": [],
    }
    asked = {"question": "Is the kite ready?", "evidence": evidence, "category": 1}
    return {"sample_id": "kite", "conversation": conversation, "qa": [asked]} | changes


def _read_gzipped(path: Path, data: bytes) -> list[Conversation]:
    path.write_bytes(data)
    return read_conversations(path)


def _read(tmp_path: Path, *items: dict[str, Any]) -> list[Conversation]:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(items), "utf-8")
    return read_conversations(path)


def test_sessions_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Session 10 comes after session 9, one without turns is left out, and a caption joins the text."""
    (found,) = _read(tmp_path, _item(["D9:1"]))
    assert [session.thread_id for session in found.sessions] == ["session-9", "session-10"]
    assert found.messages == 3
    last = found.sessions[1].messages[0]
    assert (last.id, last.role, last.text) == ("D10:1", "assistant", "Look. [a red kite]")
    assert last.created_at == datetime(2024, 3, 1, 0, 30, tzinfo=UTC)
    assert last.metadata["name"] == "Jon"


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (["D9:1; D9:2"], {"D9:1", "D9:2"}),
        (["D:9:1"], {"D9:1"}),
        (["D9:1 D10:01"], {"D9:1", "D10:1"}),
        (["D9:1", "D", "D99:1"], {"D9:1"}),
    ],
)
def test_garbled_evidence_is_read_as_it_was_meant(
    tmp_path: Path, evidence: list[str], expected: set[str]
) -> None:
    """Several ids in one text, a colon too many, a leading zero; what names no turn is left out."""
    (found,) = _read(tmp_path, _item(evidence))
    assert found.questions[0].evidence == expected


def test_a_question_without_evidence_is_left_out(tmp_path: Path) -> None:
    """Nothing could be found for it."""
    asked: list[dict[str, Any]] = [
        {"question": "Who?", "evidence": [], "category": 1},
        {"question": "Where?", "category": 1},
        {"question": "Is it ready?", "evidence": ["D9:1"], "category": 1},
    ]
    (found,) = _read(tmp_path, _item([], qa=asked))
    assert [question.text for question in found.questions] == ["Is it ready?"]


def test_two_conversations_with_one_id_are_rejected(tmp_path: Path) -> None:
    """They would be one user, and every figure wrong."""
    with pytest.raises(InvalidArgumentError, match="two conversations with one sample_id"):
        _read(tmp_path, _item(["D9:1"]), _item(["D9:1"]))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """The error says which key the reader looked for."""
    item = _item(["D9:1"])
    del item["conversation"]["session_9_date_time"]
    with pytest.raises(InvalidArgumentError, match="KeyError: 'session_9_date_time'"):
        _read(tmp_path, item)


def test_gzipped_file_is_read_as_any_other(tmp_path: Path) -> None:
    """What is no gzip, or ends early, is an error that names the file."""
    data = gzip.compress(json.dumps([_item(["D9:1"])]).encode())
    assert _read_gzipped(tmp_path / "data.json.gz", data) == _read(tmp_path, _item(["D9:1"]))
    for broken in (data[:-9], b"[]", data[:20] + b"\0" * 20):
        with pytest.raises(InvalidArgumentError, match=r"broken\.json\.gz cannot be read"):
            _read_gzipped(tmp_path / "broken.json.gz", broken)


def test_questions_come_before_the_session_they_were_asked_in(tmp_path: Path) -> None:
    """A question that says `before` is asked there; evidence from then on does not count."""
    asked: list[dict[str, Any]] = [
        {"question": "Now?", "evidence": ["D9:1", "D10:1"], "category": 1, "before": "D10:1"},
        {"question": "Too early?", "evidence": ["D10:1"], "category": 1, "before": "D10:1"},
        {"question": "Later?", "evidence": ["D10:1"], "category": 1},
    ]
    (found,) = _read(tmp_path, _item([], qa=asked))
    replayed = [
        (session and session.thread_id, [one.text for one in questions])
        for session, questions in found.replay()
    ]
    assert replayed == [("session-9", []), ("session-10", ["Now?"]), (None, ["Later?"])]
    assert found.questions[0].evidence == {"D9:1"}


def test_user_and_assistant_have_no_names(tmp_path: Path) -> None:
    """A program that talks with one user stores no names, so a chat of these roles has none."""
    item = _item(["D9:1"])
    text = json.dumps(item).replace('"Ida"', '"user"').replace('"Jon"', '"assistant"')
    (found,) = _read(tmp_path, json.loads(text))
    said = [message for session in found.sessions for message in session.messages]
    assert [(message.role, message.metadata) for message in said] == [
        ("user", {}),
        ("assistant", {}),
        ("assistant", {}),
    ]
