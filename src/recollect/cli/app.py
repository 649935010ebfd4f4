"""The command line: lists every command; each is in the file that has its name or its group's."""

import typer

from recollect.cli.chat.command import chat
from recollect.cli.data.database import migrate, vacuum
from recollect.cli.data.erase import erase
from recollect.cli.data.events import events
from recollect.cli.data.history import history
from recollect.cli.data.prune import prune
from recollect.cli.data.recall import recall
from recollect.cli.data.reindex import reindex
from recollect.cli.data.threads import threads
from recollect.cli.data.transfer import export, import_
from recollect.cli.errors import CommandGroup, make_exit_code_help
from recollect.cli.init import init
from recollect.cli.memory import approve, log, reject, show, undo
from recollect.cli.output import reserve_streams
from recollect.cli.tour import tour
from recollect.cli.version import version

app = typer.Typer(
    name="recollect",
    cls=CommandGroup,
    help="Memory for Python agents, on one SQLite file or on PostgreSQL.",
    epilog=make_exit_code_help(),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
memory = typer.Typer(help="Look into curated memory.", no_args_is_help=True, rich_markup_mode=None)
db = typer.Typer(help="Take care of the database.", no_args_is_help=True, rich_markup_mode=None)

app.command()(chat)
app.command()(init)
app.command()(tour)
app.command()(history)
app.command()(threads)
app.command()(events)
app.command()(recall)
app.command()(reindex)
app.command()(export)
app.command("import")(import_)
app.command()(erase)
app.command()(prune)
app.command()(version)
app.add_typer(memory, name="memory")
app.add_typer(db, name="db")
db.command()(migrate)
db.command()(vacuum)
memory.command("show")(show)
memory.command("log")(log)
memory.command("undo")(undo)
memory.command("approve")(approve)
memory.command("reject")(reject)


def main() -> None:
    """Run the command line."""
    reserve_streams()
    app()
