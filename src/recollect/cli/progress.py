"""A progress bar on the error stream, so that the output stays clean."""

from collections.abc import Callable, Generator
from contextlib import contextmanager


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
