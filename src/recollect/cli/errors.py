"""How a command fails: one clear line on the error stream, and an exit code that means something."""

import io
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from recollect.cli.output import check_output, make_printable
from recollect.errors import (
    ConfigError,
    InvalidArgumentError,
    MemoryNotFoundError,
    RecollectError,
    StorageError,
)

EXIT_CODES: tuple[tuple[type[RecollectError], int, str], ...] = (
    (InvalidArgumentError, 2, "an argument or the configuration is missing or wrong"),
    (ConfigError, 2, "an argument or the configuration is missing or wrong"),
    (StorageError, 3, "the database could not be opened, read or written"),
    (MemoryNotFoundError, 4, "what you named does not exist"),
    (RecollectError, 1, "anything else"),
)
"""The exit code of each kind of error; the first that fits counts."""


class CommandGroup(TyperGroup):
    """Commands whose errors of our own end them with a line instead of a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - typer's own, whatever they are
        """Run the command line; where the output is no pipe and cannot be written, a line says so as well."""
        try:
            return super().main(*args, **options)
        except OSError as error:
            # What could not be written would be tried again, and fail loudly, when Python ends.
            sys.stdout = io.StringIO()
            typer.echo(f"Error: {format_error(error)}", err=True)
            sys.exit(find_exit_code(error))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own context, from a module of its insides
        """Run the chosen command; nothing is done where nobody could read what became of it."""
        try:
            check_output()
            return super().invoke(ctx)
        except RecollectError as error:
            typer.echo(f"Error: {format_error(error)}", err=True)
            raise typer.Exit(find_exit_code(error)) from None


def find_exit_code(error: Exception) -> int:
    """Return the exit code for an error; one that is not ours is anything else."""
    return next((code for kind, code, _ in EXIT_CODES if isinstance(error, kind)), 1)


def format_error(error: Exception) -> str:
    """Return an error's message without line breaks and control characters; a foreign one has its type."""
    text = str(error) if isinstance(error, RecollectError) else f"{type(error).__name__}: {error}"
    return make_printable(" ".join(text.split()))


def make_exit_code_help() -> str:
    """Return the table of exit codes for the help text."""
    codes = sorted({(code, meaning) for _, code, meaning in EXIT_CODES})
    return "Exit codes: 0 all went well, " + ", ".join(f"{code} {meaning}" for code, meaning in codes) + "."
