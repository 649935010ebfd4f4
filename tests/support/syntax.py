"""Source code as syntax trees, for tests that look at code."""

import ast
import gc


def parsed(source: str) -> ast.Module:
    """Parse source with no collection of garbage meanwhile.

    A collection may report an error that nobody asked for. Python 3.11 parses source lines to print where it
    came from, and parsing within parsing fails there.
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()
