"""The rules of the house that a linter does not know: sizes, docstrings, twins and a light import."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.syntax import parsed

import recollect

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "recollect"
TESTS = REPOSITORY / "tests"
BENCHMARKS = REPOSITORY / "benchmarks"
TOOLS = REPOSITORY / "tools"
ENGINES = (SOURCE / "storage" / "sqlite", SOURCE / "storage" / "postgres")

MODULE_LINES = 600
TEST_FILE_LINES = 500
FUNCTION_LINES = 60
README_LINES = 120

# These load when first used: an agent that never opens a store does not pay for its driver.
LOADED_LATE = (
    "apsw",
    "psycopg",
    "typer",
    "rich",
    "Stemmer",
    "numpy",
    "pydantic",
    "pydantic_ai",
    "attr",
    "jsonschema",
    "referencing",
    "rpds",
    "opentelemetry",
    "stdnum",
    "recollect.guards",
    "recollect.backends",
    "recollect.runtime",
)


TIMES_OF_DAY = ("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "time.ctime")
# The clock itself and ids, a store's usual clock, the beginning of a trace entry and of a run's span.
DATED = {f"src/recollect/{name}.py" for name in ("messages", "storage/core", "trace", "agent/run")}


def test_modules_are_short() -> None:
    """No module of the package or the benchmarks has more than 600 lines."""
    assert not _longer_than(
        MODULE_LINES, _python_files(SOURCE) + _python_files(BENCHMARKS) + _python_files(TOOLS)
    )


def test_test_files_are_short() -> None:
    """No test file has more than 500 lines."""
    assert not _longer_than(TEST_FILE_LINES, _python_files(TESTS))


def test_functions_are_short() -> None:
    """No function, in the package, the tests or the benchmarks, has more than 60 lines."""
    long: list[str] = []
    for path in _all_python_files():
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{_short(path)}:{node.lineno} {node.name} has {lines} lines")
    assert not long


def test_time_limits_are_not_measured_by_a_clock_that_may_be_set_back() -> None:
    """The time of day is read where something is dated; durations take a monotonic clock."""
    readers = {
        _short(path)
        for path in _python_files(SOURCE)
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in TIMES_OF_DAY
    }
    assert readers == DATED


def test_every_module_says_what_it_is_for() -> None:
    """Every module, in the package, the tests and the benchmarks, begins with a docstring."""
    assert not [_short(path) for path in _all_python_files() if not ast.get_docstring(_parse(path))]


def test_tests_need_no_benchmarks() -> None:
    """What both need is in `tests/support`."""
    files = [path for path in _python_files(TESTS) if "from benchmarks" in path.read_text("utf-8")]
    assert [_short(path) for path in files if path != Path(__file__)] == []


def test_init_files_hold_no_logic() -> None:
    """An `__init__.py` holds a docstring, imports, names that load late and `__all__`, and nothing else."""
    logic = [
        f"{_short(path)}:{node.lineno}"
        for path in _all_python_files()
        if path.name == "__init__.py"
        for position, node in enumerate(_parse(path).body)
        if not _may_stand_in_init(node, position)
    ]
    assert not logic


def test_public_names_are_sorted() -> None:
    """`recollect.__all__` is in the order that ruff keeps: constants, classes, then the rest."""
    names = list(recollect.__all__)
    assert names
    assert len(names) == len(set(names))
    assert names == sorted(names, key=_public_order)


def test_public_names_exist_and_have_a_docstring() -> None:
    """Every public name can be imported and says in a docstring of its own what it is."""
    missing: list[str] = []
    undocumented: list[str] = []
    for name in recollect.__all__:
        value: object = getattr(recollect, name, None)
        if value is None:
            missing.append(name)
            continue
        text = (getattr(value, "__doc__", None) or "").strip()
        # A dataclass without a docstring is given its signature as one.
        if not text or text.startswith(f"{name}("):
            undocumented.append(name)
    assert not missing
    assert not undocumented


def test_both_engines_have_the_same_sql_files() -> None:
    """Every `.sql` file of one engine has its twin of the same name in the other."""
    sqlite, postgres = (_names(folder, "*.sql") for folder in ENGINES)
    assert sqlite
    assert sqlite == postgres


def test_both_engines_have_the_same_modules() -> None:
    """Every module of one engine has its twin in the other, but for what a server does by itself."""
    sqlite, postgres = (_names(folder, "*.py") for folder in ENGINES)
    assert sqlite
    assert sqlite == sorted([*postgres, "purge.py", "writer.py"])


def test_readme_is_short() -> None:
    """The README has no more than 120 lines."""
    assert not _longer_than(README_LINES, [REPOSITORY / "README.md"])


def test_architecture_names_only_files_that_are_there() -> None:
    """Somebody who follows the page finds what it names."""
    page = (REPOSITORY / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|txt))`", page))
    there = [
        f"/{path.relative_to(REPOSITORY)}"
        for root in (SOURCE, TESTS, BENCHMARKS)
        for path in root.rglob("*.*")
    ]
    assert named
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in there)]


def test_import_is_light() -> None:
    """`import recollect` in a fresh process loads no driver, model layer, CLI library, guard or runtime."""
    code = f"import sys, recollect; print(*(name for name in {LOADED_LATE!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split()


@pytest.mark.xdist_group("house")
def test_groups_of_tests_are_kept_together() -> None:
    """Where several processes share the tests, a test's id names its group, by which they are shared out."""
    test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")
    shared = "PYTEST_XDIST_WORKER" in os.environ
    assert test.endswith("@house") == shared, "several processes need --dist loadgroup, as in `make test`"


def _all_python_files() -> list[Path]:
    return [path for folder in (SOURCE, TESTS, BENCHMARKS, TOOLS) for path in _python_files(folder)]


def _python_files(folder: Path) -> list[Path]:
    """Return the Python files under a folder; none at all would make every test here pass."""
    files = sorted(folder.rglob("*.py"))
    assert files, f"no Python files under {folder}"
    return files


def _parse(path: Path) -> ast.Module:
    return parsed(path.read_text(encoding="utf-8"))


def _short(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def _names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(pattern))


def _longer_than(limit: int, files: list[Path]) -> list[str]:
    """Return one line for each file with more lines than the limit."""
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    return [f"{_short(path)} has {count} lines" for path, count in counts.items() if count > limit]


def _may_stand_in_init(node: ast.stmt, position: int) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return position == 0
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.AnnAssign(target=ast.Name(id="__all__")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(isinstance(inner, ast.ImportFrom) for inner in node.body)
        case ast.If(
            body=[
                ast.Assign(targets=[ast.Name(id="__getattr__")], value=ast.Call()),
                ast.Assign(targets=[ast.Name(id="__dir__")], value=ast.Call()),
            ]
        ):
            return True
        case _:
            return False


def _public_order(name: str) -> tuple[int, str]:
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name
