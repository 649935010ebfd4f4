"""Lazily imported names are the same for a checker, for an import and for a star."""

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tests.support.syntax import parsed

import recollect
from recollect._lazy import LAZY


def test_lazy_names_are_those_that_a_checker_sees() -> None:
    """The table agrees with the imports that only checkers see."""
    tree = parsed(Path(recollect.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        node.module: tuple(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert told == LAZY
    assert {name for names in LAZY.values() for name in names} <= set(recollect.__all__)


def test_a_lazy_name_loads_its_module_when_it_is_used() -> None:
    """Not before, and not for another name."""
    code = """
import sys, recollect
assert "recollect.guards.pii.detector" not in sys.modules
from recollect import PIIDetector
assert "recollect.guards.pii.detector" in sys.modules and "recollect.runtime.loader" not in sys.modules
assert recollect.PIIDetector is PIIDetector
from recollect import *
print(EngineLoader.__module__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == ("recollect.runtime.loader\n", "")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="module 'recollect' has no attribute 'Nothing'"):
        getattr(recollect, "Nothing")  # noqa: B009 - a checker refuses the attribute itself


def test_dir_shows_what_users_use_and_nothing_else() -> None:
    """Modules and helpers that happen to be loaded are not in it; what is not loaded yet is."""
    assert dir(recollect) == sorted(recollect.__all__)
    assert {"Agent", "Memory", "PER_CALL", "PIIDetector", "users"} <= set(dir(recollect))
    assert len(recollect.__all__) < 60


def test_the_version_is_that_of_the_distribution() -> None:
    """It is written down once, in the package."""
    assert recollect.__version__ == metadata.version("recollect")
