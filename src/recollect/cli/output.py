"""Output of commands: data as UTF-8 whatever the terminal's encoding, text without terminal codes, progress.

The progress bar goes to the error stream, so that the output stays clean.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unicodedata import category

import typer

from recollect.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import Console

_HARMLESS = "\n\t\u200c\u200d"  # the joiners are part of Persian and Indic words and of emoji


def reserve_streams() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise a file that we open would get the number of one, and what a library prints there would end up
    in that file. A closed input reads as empty.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())


def check_output() -> None:
    """Raise an error if the standard output is closed."""
    if sys.stdout is None:
        raise InvalidArgumentError("stdout", "is closed; send it to /dev/null if nobody is to read it")


def write_lines(*lines: str) -> None:
    """Write lines to the standard output as UTF-8."""
    stream = typer.get_binary_stream("stdout")
    for line in lines:
        stream.write(line.encode() + b"\n")
    stream.flush()


def write_json(value: object) -> None:
    """Write one JSON value, for programs to read."""
    write_lines(json.dumps(value, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """Tell the person at the terminal something that is no data."""
    typer.echo(make_printable(text), err=True)


def make_console() -> "Console":
    """Return a console on the current standard output, which tests replace."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def make_printable(text: str) -> str:
    """Return text that cannot move the cursor, hide text or otherwise steer a terminal."""
    return "".join(char if _is_harmless(char) else "\ufffd" for char in text.replace("\r\n", "\n"))


def _is_harmless(char: str) -> bool:
    # Spaces of other widths count as not printable in Python; French and Japanese are written with them.
    return char.isprintable() or char in _HARMLESS or category(char) == "Zs"


@contextmanager
def progress_bar() -> Generator[Callable[[str, float], None]]:
    """Provide a function that shows what is going on; it shows nothing where nobody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:30}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda label, done: progress.update(task, description=label, completed=done)


@contextmanager
def message_bar() -> Generator[Callable[[int, int], None]]:
    """Provide a function that shows how many messages are done, of how many."""
    with progress_bar() as show:
        yield lambda done, total: show(f"{done:,} of {total:,} messages", done / max(total, 1))
