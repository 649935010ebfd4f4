"""The errors are one tree: each is raised, says what it means, has a code and crosses processes."""

import ast
import builtins
import copy
import inspect
import pickle
from functools import cache
from pathlib import Path

import pytest
from tests.support.syntax import parsed

import recollect
from recollect import (
    ConfigError,
    InvalidArgumentError,
    MemoryGatewayError,
    MemoryNotFoundError,
    MissingExtraError,
    ProcessorError,
    RecollectError,
    errors,
)
from recollect.errors import InvalidRoleError

SOURCE = Path(recollect.__file__).parent
ERRORS: dict[str, type[RecollectError]] = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, RecollectError)
}
WITH_ARGUMENT = (InvalidArgumentError, InvalidRoleError)
WITH_PARTS = (*WITH_ARGUMENT, ConfigError, MemoryGatewayError, MissingExtraError, ProcessorError)
PLAIN = [kind for kind in ERRORS.values() if kind not in WITH_PARTS]


def test_every_exception_of_the_module_is_a_recollect_error() -> None:
    """Catching the base catches all, and nothing hides a name of Python's."""
    classes = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    exceptions = [value for value in classes if issubclass(value, BaseException)]
    assert set(exceptions) == set(ERRORS.values())
    assert not [name for name in ERRORS if hasattr(builtins, name)]
    assert len(ERRORS) > 10


def test_errors_that_callers_catch_are_public() -> None:
    """Those at the root are the errors of the module; the others are caught by these, or imported from it."""
    public = {name for name in recollect.__all__ if name.endswith("Error")}
    assert public <= ERRORS.keys()
    roots = tuple(ERRORS[name] for name in public - {"RecollectError"})
    assert [name for name, kind in ERRORS.items() if not issubclass(kind, roots)] == ["RecollectError"]


def test_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    """The drawing at the top of the module names each class, below its parent."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.strip(" │├└─").partition(" ")[0]
        if name not in ERRORS:
            continue
        depth = line.index(name)
        path = [(column, other) for column, other in path if column < depth]
        parents[name] = path[-1][1] if path else ""
        path.append((depth, name))
    real = {name: kind.__bases__[0].__name__ for name, kind in ERRORS.items()}
    assert parents == real | {"RecollectError": ""}


def test_every_error_is_raised_somewhere() -> None:
    """No class is there for show: each is made by code of the package."""
    assert ERRORS.keys() - {"RecollectError"} - _names_made() == set()


def test_names_in_handlers_and_imports_do_not_count_as_raised() -> None:
    """The search above finds what is made, not what is only mentioned."""
    mentioned = """
from recollect.errors import AError, BError
def f(x: CError) -> DError:
    try:
        pass
    except (EError, FError):
        pass
"""
    assert _made_in(parsed(mentioned)) == set()
    assert _made_in(parsed("def f():\n    raise GError('x')")) == {"GError"}
    assert _made_in(parsed("_KNOWN = ((Driver, HError, 'advice'),)")) == {"Driver", "HError"}


def test_codes_are_unique_words() -> None:
    """Machines can match on a code, so no two errors share one and none is inherited."""
    codes = [vars(kind)["code"] for kind in ERRORS.values()]
    assert len(set(codes)) == len(codes)
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


@pytest.mark.parametrize("kind", PLAIN)
def test_docstring_is_the_message_when_none_is_given(kind: type[RecollectError]) -> None:
    """The first line of the class docstring says what happened."""
    first_line = (kind.__doc__ or "").splitlines()[0]
    assert str(kind()) == first_line
    assert first_line.endswith(".")
    assert str(kind("what happened")) == "what happened"


@pytest.mark.parametrize("kind", WITH_ARGUMENT)
def test_argument_errors_name_the_argument(kind: type[InvalidArgumentError]) -> None:
    """The message is the argument and the problem, and both can be asked for."""
    error = kind("limit", "must be 0 or more, not -1")
    assert (error.argument, error.problem) == ("limit", "must be 0 or more, not -1")
    assert str(error) == "limit: must be 0 or more, not -1"


def test_errors_are_also_what_python_calls_them() -> None:
    """A wrong argument is a ValueError, a missing thing a LookupError."""
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(MemoryNotFoundError, LookupError)
    assert not issubclass(RecollectError, MemoryError | OSError)


def test_argument_name_is_cut_when_it_is_hostile() -> None:
    """A place inside a hostile value can be very long; the error stays short."""
    error = InvalidArgumentError("x" * 10_000, "is wrong")
    assert len(error.argument) < 250
    assert error.argument.endswith("...")


@pytest.mark.parametrize("kind", ERRORS.values())
def test_errors_cross_a_process_border(kind: type[RecollectError]) -> None:
    """Pickled and copied, an error keeps its class, its message and its parts."""
    error = _example(kind)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own bytes
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.code == error.code


def test_gateway_errors_name_the_call_and_what_went_wrong() -> None:
    """The message has the operation, the path, the category, and the status where there is one."""
    error = MemoryGatewayError("add", "/memories/add", "http_status", 401)
    assert str(error) == "memory gateway: add (POST /memories/add) failed: http_status, HTTP status 401"
    assert "status" not in str(MemoryGatewayError("add", "/memories/add", "timeout"))


def test_a_missing_extra_is_the_command_to_run() -> None:
    """The message can be pasted into a terminal, and the error is an ImportError too."""
    error = MissingExtraError("agent")
    assert (str(error), error.extra) == ("pip install 'recollect[agent]'", "agent")
    assert issubclass(MissingExtraError, ImportError)


def test_a_processor_error_names_the_processor() -> None:
    """The message begins with the id of the processor that is at fault."""
    error = ProcessorError("shouter", "process_input must return a list of messages")
    assert str(error) == "processor 'shouter': process_input must return a list of messages"
    assert error.processor_id == "shouter"


def _example(kind: type[RecollectError]) -> RecollectError:
    if issubclass(kind, InvalidArgumentError):
        return kind("x" * 300, "is wrong")
    if issubclass(kind, MemoryGatewayError):
        return kind("add", "/memories/add", "http_status", 401)
    if issubclass(kind, ProcessorError):
        return kind("pii", "process_input must return a list of messages")
    if issubclass(kind, ConfigError):
        return kind("memory.mode", "is wrong")
    return kind("what happened")


@cache
def _names_made() -> set[str]:
    files = [path for path in SOURCE.rglob("*.py") if path.name not in ("errors.py", "__init__.py")]
    trees = [parsed(path.read_text(encoding="utf-8")) for path in files]
    return {name for tree in trees for name in _made_in(tree)}


def _made_in(tree: ast.AST) -> set[str]:
    """Return the names that are called, or that stand in a table of values."""
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    handled = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type
        for name in ast.walk(node.type)
    }
    listed = {
        item.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple) and node not in handled
        for item in node.elts
        if isinstance(item, ast.Name)
    }
    return called | listed
