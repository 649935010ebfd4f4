"""`recollect export` and `recollect import`: everything stored about a user, as JSON lines."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.data.vectors import finish_vectors
from recollect.cli.options import (
    Json,
    StoreUrl,
    System,
    Tenant,
    User,
    choose_tenant,
    require_database,
    resolve_database,
    run_in_store,
)
from recollect.cli.output import say, write_json, write_lines
from recollect.errors import EmbedderError, InvalidArgumentError, MissingExtraError
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle
from recollect.storage.store import Store

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]

_FRAME_LINES = 2  # the first line and the last say what the file is


def export(
    user: User, store: StoreUrl = None, tenant: Tenant = None, system: System = False, output: Output = None
) -> None:
    """Write everything stored about a user as JSON lines, which `recollect import` can read."""
    scope = Scope(choose_tenant(tenant, system=system), user)
    lines = run_in_store(require_database(store), lambda opened: _export(opened, scope))
    if output is None:
        write_lines(*lines)
    else:
        _write_file(output, lines)
    say(f"Exported {len(lines) - _FRAME_LINES} entries of user {user!r}.")


async def _export(store: Store, scope: Scope) -> list[str]:
    return [line async for line in store.export(scope=scope)]


def _write_file(path: Path, lines: list[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidArgumentError("output", f"{path} cannot be written ({error.strerror})") from error


File = Annotated[str, typer.Argument(help="The file that was exported, or - for the standard input.")]
Merge = Annotated[bool, typer.Option("--merge", help="Add to what is already stored about the user.")]
TextOnly = Annotated[
    bool, typer.Option("--text-only", help="Write no vectors: for a program with an embedder of its own.")
]


def import_(  # noqa: PLR0917 - one for each option
    file: File,
    user: User,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    merge: Merge = False,
    text_only: TextOnly = False,
    json: Json = False,
) -> None:
    """Import an exported file into a user, who may be another one; if a line is wrong, import nothing.

    Afterwards the built-in embedder, if it is installed, makes the vectors by which search knows meanings.
    """
    scope = Scope(choose_tenant(tenant, system=system), user)
    url, lines = resolve_database(store), _read(file)
    counts = run_in_store(url, lambda opened: opened.import_(lines, merge=merge, scope=scope))
    if json:
        write_json({"counts": counts})
    else:
        write_lines(
            f"Imported into user {user!r}:", *(f"  {kind}: {count}" for kind, count in counts.items())
        )
    if not text_only:
        run_in_store(url, lambda opened: _embed(opened, scope))


async def _embed(store: Store, scope: Scope) -> None:
    """Make the vectors of what was imported; if that fails, search goes by words until `reindex` does it."""
    from recollect.recall.embedding.embedder import default_embedder
    from recollect.recall.recaller import Recaller

    try:
        recaller = Recaller(StoreHandle(store), default_embedder())
        await finish_vectors(recaller, scope, store)
    except MissingExtraError as error:
        say(
            f"Search knows the messages by their words alone; for meanings {error}, then `recollect reindex`."
        )
    except EmbedderError as error:
        say(f"Search knows the messages by their words alone: {error}")


def _read(file: str) -> list[str]:
    try:
        data = typer.get_binary_stream("stdin").read() if file == "-" else Path(file).read_bytes()
        # Only line feeds part lines: JSON may hold other characters that Python takes for line ends.
        return data.decode().split("\n")
    except OSError as error:
        raise InvalidArgumentError("file", f"{file} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError("file", f"{file} is not UTF-8 text ({error.reason})") from error
