"""`python -m benchmarks NAME`: the command line of the benchmarks."""

import typer

from benchmarks.commands.all import bench_all
from benchmarks.commands.guards import bench_guards
from benchmarks.commands.recall import bench_recall
from benchmarks.commands.runtime import bench_runtime
from benchmarks.commands.store import bench_store
from benchmarks.commands.turn import bench_turn
from recollect.cli.problems import CommandGroup

app = typer.Typer(
    name="benchmarks",
    cls=CommandGroup,
    help="Measure speed and quality.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("store")(bench_store)
app.command("turn")(bench_turn)
app.command("recall")(bench_recall)
app.command("guards")(bench_guards)
app.command("runtime")(bench_runtime)
app.command("all")(bench_all)

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
