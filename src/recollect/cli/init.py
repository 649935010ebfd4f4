"""`recollect init`: a first configuration, to be changed by hand."""

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from recollect.backends.curated.files import replace_file
from recollect.cli.output import say
from recollect.errors import ConfigError, ConflictError
from recollect.runtime.config.file import FILE, FOLDER

Folder = Annotated[Path, typer.Argument(help="Where the agent is to live; it is made if it is missing.")]
IfMissing = Annotated[bool, typer.Option("--if-missing", help="Leave a configuration that is there alone.")]

FIRST: dict[str, object] = {
    "model": "offline",
    "instructions": "You are a helpful assistant.",
    "memory": {"mode": "curated"},
}
"""What a new configuration says."""


def init(folder: Folder = Path(), if_missing: IfMissing = False) -> None:
    """Write a first .recollect/config.json: curated memory, and a model that needs no key."""
    file = folder / FOLDER / FILE
    try:
        if file.exists():
            if if_missing:
                return
            raise ConflictError(f"{file} is there already; change it by hand, or remove it first")
        # For its owner alone: all that is said will lie there, and perhaps a key.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whole or not at all: half of one would stand in the way of the next try.
        replace_file(file, (json.dumps(FIRST, indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigError(str(file), f"cannot be written: {error.strerror}") from error
    say(
        f"Wrote {file}. Now: recollect chat --config {quote(str(folder))}"
        if folder != Path()
        else f"Wrote {file}. Now: recollect chat"
    )
