"""`recollect version`: what is installed."""

import platform

from recollect._version import __version__
from recollect.cli.options import Json
from recollect.cli.output import write_json, write_lines


def version(json: Json = False) -> None:
    """Show the versions of recollect, Python and SQLite."""
    import apsw

    found = {
        "recollect": __version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }
    if json:
        write_json(found)
    else:
        write_lines(f"recollect {found['recollect']} (Python {found['python']}, SQLite {found['sqlite']})")
