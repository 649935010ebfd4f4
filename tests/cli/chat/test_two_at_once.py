"""Several chats in one folder: at once, and after one that was killed."""

import json
import time
from pathlib import Path

from tests.cli.chat.terminal import Terminal
from tests.cli.chat.test_chat import answers, piped


def noted(folder: Path) -> list[str]:
    """Return what is noted about the user, by the command."""
    shown = json.loads(piped(folder, "", "memory", "show", "--json").stdout)
    return [entry["text"] for entry in shown["files"]["user"]["entries"]]


def test_two_chats_at_once_each_keep_their_session_and_share_what_is_noted(tmp_path: Path) -> None:
    """Nothing is lost between them, and each sees at once what the other has noted."""
    piped(tmp_path, "", "init")
    with Terminal(["chat"], tmp_path) as first, Terminal(["chat"], tmp_path) as second:
        for terminal in (first, second):
            terminal.wait_for("you> ")
        for number in range(4):
            first.type(f"Remember that the sail {number} is red.\n")
            second.type(f"Remember that the mast {number} is high.\n")
            for terminal in (first, second):
                terminal.wait_for("Noted.")
                terminal.wait_for("you> ")
        first.type("How high is the mast 3?\n")
        first.wait_for("noted: the mast 3 is high")
        second.type("/sessions\n")
        shown = second.wait_for("/use NAME")
        assert shown.count(" messages ") == 2
        for terminal in (first, second):
            terminal.type("/quit\n")
            assert terminal.ended() == 0
    wanted = [f"the {what} {number}" for number in range(4) for what in ("mast", "sail")]
    assert sorted(wanted) == sorted(entry.partition(" is ")[0] for entry in noted(tmp_path))


def test_a_chat_goes_on_after_one_that_was_killed(tmp_path: Path) -> None:
    """Whatever it was doing: its turn is there whole or not at all, and nothing stays locked."""
    piped(tmp_path, "", "init")
    piped(tmp_path, "Remember that I am Ada.\n", "chat", "--session", "s1")
    for pause in (0.0, 0.01, 0.03, 0.1):
        with Terminal(["chat", "--session", "s1"], tmp_path) as terminal:
            terminal.wait_for("you> ")
            terminal.type(f"Remember that I waited for {pause}.\n")
            time.sleep(pause)
            terminal.kill()
    (answer,) = answers(piped(tmp_path, "Who am I?\n", "chat", "--session", "s1", "--json"))
    assert answer["saved"]
    assert not [entry["error"] for entry in answer["trace"] if entry["error"]]
    said = piped(tmp_path, "", "history", *_store(tmp_path), "--thread", "s1", "--json")
    kept = [message for message in json.loads(said.stdout) if message["role"] == "user"]
    assert len(noted(tmp_path)) <= len(kept)
    assert noted(tmp_path)[0] == "I am Ada."
    log = json.loads(piped(tmp_path, "", "memory", "log", "--json").stdout)
    assert len([change for change in log if change["applied"]]) == len(noted(tmp_path))


def _store(folder: Path) -> tuple[str, ...]:
    return ("--store", f"sqlite:///{folder}/.recollect/recollect.db", "--user", "local", "--system")
