"""How commands fail: one line on the error stream and the exit code of the table, never a traceback."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support import programs
from typer.testing import CliRunner

from recollect import ConflictError, InvalidArgumentError, MemoryNotFoundError, RecollectError, StorageError
from recollect.cli.app import app
from recollect.cli.errors import EXIT_CODES, find_exit_code, format_error
from recollect.errors import StorageBusyError

ADA = ("--user", "ada", "--tenant", "1")


def recollect(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if name != "RECOLLECT_DATABASE_URL"}
    done = programs.run(arguments, Path.cwd(), environment=clean | environment)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def check_failure(done: "subprocess.CompletedProcess[str]", code: int, words: str) -> None:
    """Hold a failed command to one line that says the words, and to its exit code."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--user", "ada"), "tenant: give either --tenant TENANT or --system"),
        (("--user", "ada", "--tenant", "1", "--system"), "tenant: give either --tenant TENANT or --system"),
        (("--user", "ada", "--tenant", ""), "tenant_id: must not be empty"),
        (("--user", "ada", "--tenant", "x" * 513), "tenant_id: is 513 bytes long; at most 512 are allowed"),
        (
            ("--user", "ada", "--tenant", "(system)"),
            "tenant: '(system)' is reserved for the tenant None; use --system",
        ),
        (("--user", "", "--system"), "user_id: must not be empty"),
    ],
)
def test_the_exit_code_is_2_when_an_argument_is_wrong(
    arguments: tuple[str, ...], words: str, new_sqlite_url: str
) -> None:
    """Every command of a user refuses a missing or doubled tenant and an empty user."""
    for command in ("export", "erase", "threads", "history"):
        result = CliRunner().invoke(app, [command, "--store", new_sqlite_url, *arguments])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"Error: {words}\n"


def test_the_exit_code_is_2_when_there_is_no_address() -> None:
    """Without --store and without the environment variable the command says what to give."""
    check_failure(recollect("history", *ADA), 2, "store: name the database with --store")


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://", "sqlite://file.db"])
def test_the_exit_code_is_2_when_the_address_is_unusable(url: str) -> None:
    """An unknown scheme, a database that ends with the command, and a missing slash are refused."""
    result = CliRunner().invoke(app, ["threads", "--store", url, *ADA])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: store: ")


def test_the_exit_code_is_2_when_the_limit_is_negative(new_sqlite_url: str) -> None:
    """A limit below zero is an error that names it."""
    Path(new_sqlite_url.removeprefix("sqlite:///")).touch()
    result = CliRunner().invoke(app, ["threads", "--store", new_sqlite_url, *ADA, "--limit", "-1"])
    assert (result.exit_code, result.stderr) == (2, "Error: limit: must be 0 or more, not -1\n")


def test_the_exit_code_is_3_when_the_file_is_missing(new_sqlite_url: str) -> None:
    """A mistyped file name is an error, and no empty file is left behind."""
    for command in ("export", "threads", "history"):
        check_failure(recollect(command, "--store", new_sqlite_url, *ADA), 3, "there is no such file")
    check_failure(recollect("erase", "--yes", "--store", new_sqlite_url, *ADA), 3, "there is no such file")
    assert not Path(new_sqlite_url.removeprefix("sqlite:///")).exists()


def test_the_exit_code_is_3_when_the_file_is_no_database(tmp_path: Path) -> None:
    """Any other file is left alone."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 200, "utf-8")
    check_failure(recollect("history", "--store", f"sqlite:///{file}", *ADA), 3, "not a SQLite database")
    assert file.read_text("utf-8") == "not a database\n" * 200


def test_the_exit_code_is_3_when_the_server_cannot_be_reached(tmp_path: Path) -> None:
    """The URL's password is not shown."""
    url = f"postgresql://ada:s3cret@/db?host={tmp_path}"
    done = recollect("history", *ADA, RECOLLECT_DATABASE_URL=url)
    check_failure(done, 3, "the server cannot be reached")
    assert "s3cret" not in done.stderr


def test_the_exit_code_is_4_when_the_thread_is_not_there(new_sqlite_url: str) -> None:
    """A thread that does not exist is told apart from one without messages."""
    Path(new_sqlite_url.removeprefix("sqlite:///")).touch()
    done = recollect("history", "--store", new_sqlite_url, *ADA, "--thread", "nowhere")
    check_failure(done, 4, "there is no thread 'nowhere'")


def test_the_exit_code_is_2_when_a_file_cannot_be_read_or_written(
    new_sqlite_url: str, tmp_path: Path
) -> None:
    """A missing file, a folder, and a file that is no export are refused before anything is written."""
    into = ("--store", new_sqlite_url, *ADA)
    check_failure(recollect("import", str(tmp_path / "missing"), *into), 2, "file: ")
    assert not Path(new_sqlite_url.removeprefix("sqlite:///")).exists()
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    check_failure(recollect("import", str(tmp_path / "latin.txt"), *into), 2, "is not UTF-8 text")
    (tmp_path / "notes.txt").write_text('{"kind": "note"}\n', "utf-8")
    check_failure(recollect("import", str(tmp_path / "notes.txt"), *into), 2, "not a recollect export")
    check_failure(recollect("export", *into, "--output", str(tmp_path)), 2, "output: ")


def test_the_table_of_exit_codes_fits_every_error() -> None:
    """The most special kind of an error decides."""
    assert find_exit_code(InvalidArgumentError("limit", "is wrong")) == 2
    assert find_exit_code(StorageBusyError()) == find_exit_code(StorageError()) == 3
    assert find_exit_code(MemoryNotFoundError()) == 4
    assert find_exit_code(ConflictError()) == find_exit_code(RecollectError()) == 1


def test_the_help_of_the_app_explains_the_exit_codes() -> None:
    """Each row of the table is in `recollect --help`."""
    shown = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for _, code, meaning in EXIT_CODES:
        assert f"{code} {meaning}" in shown


def test_an_error_is_one_harmless_line_when_its_message_is_not() -> None:
    """Line breaks and terminal codes of a message do not reach the terminal."""
    assert format_error(RecollectError("first\nsecond\t\x1b[31mred")) == "first second \ufffd[31mred"
