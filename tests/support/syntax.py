"""Source code as syntax trees, for tests that look at code."""

import ast

from tests.support.garbage import no_collection


def parsed(source: str) -> ast.Module:
    """Parse source with no collection of garbage meanwhile.

    A collection may report an error that nobody asked for. Python 3.11 parses source lines to print where it
    came from, and parsing within parsing fails there.
    """
    with no_collection():
        return ast.parse(source)
