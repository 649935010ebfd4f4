"""Commands whose standard streams are closed, full, or read by somebody who leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.chat.test_chat import MAIN, piped
from tests.support import programs

DATABASE = ("--store", "sqlite:///.recollect/recollect.db", "--user", "local", "--system")
COMMANDS = [
    ("chat",),
    ("chat", "--json"),
    ("events",),
    ("events", "--json"),
    ("memory", "show"),
    ("memory", "undo"),
    ("history", *DATABASE),
    ("threads", *DATABASE),
    ("export", *DATABASE),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that was told something."""
    found = tmp_path_factory.mktemp("agent")
    piped(found, "", "init")
    assert "Noted" in piped(found, "Remember that my boat is red.\n", "chat").stdout
    return found


def run_in_shell(
    folder: Path, words: tuple[str, ...], streams: str, program: list[str] = MAIN
) -> "subprocess.CompletedProcess[str]":
    """Run a command with its streams as a shell would set them."""
    return subprocess.run(
        ["/bin/sh", "-c", f'"$@" {streams}', "sh", *program, *words],
        input="hi\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )


def change_log(folder: Path) -> bytes:
    """Return the log of curated memory as it is."""
    return (folder / ".recollect" / "memories" / "changes.jsonl").read_bytes()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_does_nothing_when_its_output_is_closed(folder: Path, words: tuple[str, ...]) -> None:
    """One line says so; a change that nobody is told of would be made again."""
    before = change_log(folder)
    done = programs.run(words, folder, b"hi\n", stdout=programs.CLOSED)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"stdout: is closed" in done.stderr
    assert change_log(folder) == before


def test_python_starts_without_an_output_and_the_command_says_so(folder: Path) -> None:
    """The same where a shell closes it before Python begins."""
    done = run_in_shell(folder, ("memory", "undo"), ">&-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "stdout: is closed" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that only Linux has")
@pytest.mark.parametrize("words", [("--help",), *COMMANDS[:5], *COMMANDS[6:]], ids=" ".join)
def test_a_command_says_in_a_line_that_its_output_is_full(folder: Path, words: tuple[str, ...]) -> None:
    """Neither a traceback nor a second complaint when Python ends."""
    with Path("/dev/full").open("wb") as full:
        done = programs.run(words, folder, b"hi\n", stdout=full.fileno())
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("words", [("--help",), *COMMANDS[:5], *COMMANDS[6:]], ids=" ".join)
def test_a_command_ends_quietly_when_its_reader_has_left(folder: Path, words: tuple[str, ...]) -> None:
    """As in `recollect events | head -1`: whoever leaves has read enough."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = programs.run(words, folder, b"hi\n", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_closed_input_is_an_empty_one(folder: Path) -> None:
    """Nobody says yes to an erasure, and there is nothing to import."""
    erased = run_in_shell(folder, ("erase", *DATABASE), "<&-")
    assert erased.returncode == 1
    assert "Aborted!" in erased.stderr
    imported = run_in_shell(folder, ("import", "-", *DATABASE), "<&-")
    assert imported.returncode == 2
    assert imported.stderr.startswith("Error: ")
    assert run_in_shell(folder, ("chat",), "<&- 2>&-").returncode == 0


def test_a_file_never_gets_the_number_of_a_closed_stream(folder: Path) -> None:
    """What a library prints to the error stream would be written into it."""
    code = (
        "import os, sys\n"
        "from recollect.cli.output import reserve_streams\n"
        "reserve_streams()\n"
        "sys.exit(os.open('.recollect/config.json', os.O_RDONLY) < 3)"
    )
    assert run_in_shell(folder, (), "<&- >&- 2>&-", [sys.executable, "-c", code]).returncode == 0
