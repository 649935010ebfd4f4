"""`recollect chat`: at a terminal and through a pipe, on real processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.chat.terminal import Terminal
from tests.support import programs

MAIN = [sys.executable, "-c", "from recollect.cli.app import main; main()"]
ROOT = Path(__file__).resolve().parents[3]
UP = "\x1b[A"

SLOW = """
import asyncio, sys
from recollect.cli.chat.terminal import TerminalChat
from recollect.runtime.loader import EngineLoader

class Slow:
    async def respond(self, messages):
        yield "one two three "
        await asyncio.sleep(0 if "quick" in messages[-1].text else 60)
        yield "done"

TerminalChat(EngineLoader(".").load(model=Slow()), None, (), is_new=True).run()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the first configuration."""
    done = piped(tmp_path, "", "init")
    assert (done.returncode, done.stdout) == (0, "")
    return tmp_path


def piped(folder: Path, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one of our commands with a text as its standard input."""
    done = programs.run(arguments, folder, text.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def fed(command: list[str], folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """Run any command with a text as its standard input."""
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        cwd=folder,
    )


def answers(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    """Return the JSON objects that a chat printed."""
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def configure(folder: Path, **changes: object) -> None:
    """Change keys of a folder's configuration."""
    file = folder / ".recollect" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


def test_a_prompt_through_a_pipe_is_answered_as_json(folder: Path) -> None:
    """One object with the session, the text, and what the pipeline did."""
    done = piped(folder, "hi\n", "chat", "--json")
    (answer,) = answers(done)
    assert done.returncode == 0
    assert answer["text"].startswith("I am the offline model")
    assert answer["saved"]
    assert answer["tripwire"] is None
    assert answer["session_id"]
    assert "long-term-memory" in {entry["processor_id"] for entry in answer["trace"]}


def test_each_line_of_a_pipe_is_a_prompt_of_one_session(folder: Path) -> None:
    """Empty lines are none; without --json the answers are plain text."""
    done = piped(folder, "My boat is called Wilma.\n\n  \nWhat is my boat called?\n", "chat")
    assert done.returncode == 0
    assert "user said: My boat is called Wilma." in done.stdout
    first, second = answers(piped(folder, "a\nb", "chat", "--json", "--session", "s1"))
    assert first["session_id"] == second["session_id"] == "s1"
    assert first["run_id"] != second["run_id"]


def test_what_was_said_in_one_chat_is_remembered_in_the_next(folder: Path) -> None:
    """By the files where it was asked for, and by the sessions where it was not."""
    piped(folder, "Remember that my dog is called Rex.\n", "chat")
    piped(folder, "The boiler was repaired by Ines.\n", "chat")
    assert "Rex" in (folder / ".recollect" / "memories" / "USER.md").read_text("utf-8")
    assert "Rex" in piped(folder, "What is my dog called?\n", "chat").stdout
    assert "Ines" in piped(folder, "Who repaired the boiler?\n", "chat").stdout


def test_a_blocked_prompt_is_said_and_not_kept(folder: Path) -> None:
    """In JSON it is the tripwire; in plain text a line on the error stream."""
    configure(folder, guards=[{"name": "PIIDetector", "strategy": "block"}])
    done = piped(folder, "mail ada@example.org\n", "chat", "--json", "--session", "s1")
    (answer,) = answers(done)
    assert answer["tripwire"]["processor_id"] == "pii"
    assert (answer["text"], answer["saved"]) == ("", False)
    plain = piped(folder, "mail ada@example.org\n", "chat")
    assert plain.stdout == ""
    assert "Blocked by pii" in plain.stderr


def test_a_chat_without_a_configuration_says_what_to_do(tmp_path: Path) -> None:
    """One line, and an exit code that means a wrong argument."""
    done = piped(tmp_path, "hi\n", "chat")
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    assert "Traceback" not in done.stderr
    again = piped(tmp_path, "", "init")
    assert "Now: recollect chat" in again.stderr
    assert piped(tmp_path, "", "init").returncode == 1
    assert piped(tmp_path, "", "init", "--if-missing").returncode == 0


@pytest.mark.parametrize("session", ["", "x" * 600])
def test_a_session_that_can_be_none_is_refused_before_anything_is_asked(folder: Path, session: str) -> None:
    """A variable that is not set must not begin a new session for each prompt."""
    done = piped(folder, "hi\n", "chat", "--session", session)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: session: ")


def test_a_model_that_cannot_be_used_is_an_error_for_each_prompt(folder: Path) -> None:
    """Programs find it in the JSON, people on the error stream; the exit code tells both."""
    done = piped(folder, "hi\nho\n", "chat", "--json", "--model", "nobody:nothing")
    assert done.returncode == 1
    assert [answer["error"]["code"] for answer in answers(done)] == ["model_unavailable"] * 2


def test_a_pipe_that_is_not_utf_8_is_refused(folder: Path) -> None:
    """It is said, instead of answering something that nobody asked."""
    done = programs.run(["chat"], folder, b"caf\xe9\n")
    assert done.returncode == 2
    assert b"is not text in UTF-8" in done.stderr


def test_a_line_that_is_not_utf_8_costs_no_other_line_its_answer(folder: Path) -> None:
    """A program that reads JSON is told of it in JSON, in its place."""
    done = programs.run(["chat", "--json"], folder, b"one\ncaf\xe9\ntwo\n")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (2, b"")
    assert first["session_id"] == second["session_id"] == third["session_id"]
    assert first["saved"]
    assert third["saved"]
    assert second["error"]["code"] == "invalid_argument"


def test_make_start_sets_up_a_folder_in_which_a_newcomer_is_remembered(tmp_path: Path) -> None:
    """Told something, left and come back to; with no key and no server. Setting up is done already here."""
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    for name in ("pyproject.toml", "constraints.txt", "stamp"):
        (tmp_path / name).touch()
    command = ["make", "start", f"BIN={Path(sys.executable).parent}", "RUN_STAMP=stamp"]

    def start(text: str) -> str:
        done = fed(command, tmp_path, text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Noted." in start("Remember that my boat is called Wilma.\n")
    assert "my boat is called Wilma" in start("What is my boat called?\n")
    assert (tmp_path / "playground" / ".recollect" / "config.json").is_file()


def test_a_chat_at_a_terminal_answers_explains_and_ends(folder: Path) -> None:
    """Answers stream, commands work, and coming back goes on where it ended."""
    with Terminal(["chat"], folder) as terminal:
        terminal.wait_for("memory curated")
        terminal.wait_for("you> ")
        terminal.type("/why\n")
        terminal.wait_for("Nothing was asked yet.")
        terminal.type("Remember that my boat is called Wilma.\n")
        terminal.wait_for("[memory …]")
        terminal.wait_for("you> ")
        terminal.type("What is my boat called?\n")
        terminal.wait_for("Wilma")
        terminal.wait_for("you> ")
        terminal.type("/why\n")
        shown = terminal.wait_for("long-term-memory (commit)")
        assert "system prompt:" in shown
        assert "history: user: Remember that my boat" in shown
        assert "message-history (input)" in shown
        terminal.type("/memory\n")
        terminal.wait_for("Wilma")
        terminal.type("/sessions\n")
        terminal.wait_for("* ")
        terminal.type("/help\n")
        terminal.wait_for("/quit")
        terminal.type("/nonsense\n")
        terminal.wait_for("There is no command /nonsense")
        terminal.type("/new\n")
        terminal.wait_for("Session ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0
    with Terminal(["chat"], folder) as terminal:
        terminal.wait_for("Going on with session")
        terminal.wait_for("you> ")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_the_arrow_keys_bring_back_what_was_typed(folder: Path) -> None:
    """The line before comes back with the up key."""
    with Terminal(["chat"], folder) as terminal:
        terminal.wait_for("you> ")
        terminal.type("/nonsense\n")
        terminal.wait_for("There is no command /nonsense")
        terminal.wait_for("you> ")
        terminal.type(f"{UP}\n")
        terminal.wait_for("There is no command /nonsense")
        terminal.wait_for("you> ")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_ctrl_c_ends_the_answer_and_not_the_program(folder: Path) -> None:
    """What was seen of the answer is kept; the next prompt is answered."""
    with Terminal([], folder, code=SLOW) as terminal:
        terminal.wait_for("you> ")
        terminal.type("tell me slowly\n")
        terminal.wait_for("one two three")
        terminal.interrupt()
        terminal.wait_for("(stopped; what you saw of this turn is kept)")
        terminal.wait_for("you> ")
        terminal.interrupt_until("to leave)")
        terminal.type("now be quick\n")
        terminal.wait_for("done")
        terminal.type("/sessions\n")
        terminal.wait_for("4 messages")
        terminal.type("/quit\n")
        assert terminal.ended() == 0
