"""Imports point one way: a module imports from its own room or from a lower layer.

The table below is the layout of the package, lowest layer first. A name in it is a room: a package or a
module at the root. Rooms of one layer do not know each other, except for the values at the bottom. Every
import counts: at the top, inside a function, and under `TYPE_CHECKING`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.syntax import parsed

SOURCE = Path(__file__).resolve().parents[2] / "src"
ROOT = "recollect"

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "recollect._lazy",
        "recollect._version",
        "recollect.errors",
        "recollect.message_size",
        "recollect.messages",
        "recollect.model_validation",
        "recollect.scope",
        "recollect.tool_pairs",
        "recollect.trace",
        "recollect.validation",
        "recollect.working_memory",
    ),
    ("recollect.concurrency", "recollect.text"),
    ("recollect.storage",),
    ("recollect.pipeline", "recollect.recall"),
    ("recollect.guards",),
    ("recollect.backends", "recollect.memory", "recollect.users"),
    ("recollect.agent",),
    ("recollect.runtime",),
    ("recollect.cli", "recollect.testing"),
)
VALUES = 0
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}


class Module(NamedTuple):
    """A module of the package: its dotted name, its text, and whether it is an `__init__.py`."""

    name: str
    source: str
    is_package: bool = False


def test_imports_point_to_the_same_room_or_a_lower_layer() -> None:
    """No module of the package imports from a layer above its own, or from another room beside it."""
    modules = _read_modules()
    assert modules, f"no modules found under {SOURCE}"
    names = frozenset(module.name for module in modules)
    problems = [problem for module in modules for problem in _problems(module, names)]
    assert not problems, "\n".join(["", *problems])


def test_an_upward_import_is_found_wherever_it_stands() -> None:
    """An import under TYPE_CHECKING, in a function, or relative counts like one at the top."""
    names = frozenset({"recollect", "recollect.scope", "recollect.users", "recollect.storage.store"})
    upward = (
        "import recollect.users",
        "from recollect import users",
        "from recollect.users import Users",
        "from ..users import Users",
        "if TYPE_CHECKING:\n    from recollect.users import Users",
        "def lazy():\n    import recollect.users",
    )
    for source in upward:
        (problem,) = _problems(Module("recollect.storage.store", source), names)
        assert "recollect.storage.store (layer 2) imports recollect.users (layer 5)" in problem
    downward = "import json\nfrom recollect import scope\nfrom recollect.scope import Scope\n"
    assert not _problems(Module("recollect.storage.store", downward), names)


def test_rooms_of_one_layer_do_not_import_each_other() -> None:
    """Curated memory does not know the local one; values may know each other, and a room itself."""
    names = frozenset({"recollect.backends.base", "recollect.memory.history", "recollect.memory.base"})
    beside = Module("recollect.memory.history", "from recollect.backends.base import MemoryBackend")
    (problem,) = _problems(beside, names)
    assert "recollect.memory.history imports recollect.backends.base, a room of its own layer" in problem
    within = Module("recollect.memory.history", "from recollect.memory.base import MemoryProcessor")
    assert not _problems(within, names)
    assert not _problems(Module("recollect.messages", "from recollect.errors import RecollectError"), names)


def test_a_module_in_no_layer_is_a_problem() -> None:
    """A new module must be added to the table, whether it imports or is imported."""
    names = frozenset({"recollect.novelty", "recollect.users"})
    (own,) = _problems(Module("recollect.novelty", ""), names)
    (imported,) = _problems(Module("recollect.users", "import recollect.novelty"), names)
    for problem in (own, imported):
        assert "recollect.novelty is in no layer: add it to LAYERS" in problem


def test_nobody_imports_the_package_root() -> None:
    """The root re-exports every layer, so a module that imports it would import upward."""
    names = frozenset({"recollect", "recollect.users"})
    for source in ("import recollect", "from recollect import Users", "from . import Users"):
        (problem,) = _problems(Module("recollect.users", source), names)
        assert "imports the package root" in problem
    assert not _problems(Module("recollect", "from recollect.users import Users", is_package=True), names)


def _read_modules() -> list[Module]:
    """Return every module of the package, sorted by path."""
    modules: list[Module] = []
    for path in sorted((SOURCE / ROOT).rglob("*.py")):
        is_package = path.name == "__init__.py"
        parts = (path.parent if is_package else path.with_suffix("")).relative_to(SOURCE).parts
        modules.append(Module(".".join(parts), path.read_text(encoding="utf-8"), is_package))
    return modules


def _problems(module: Module, names: frozenset[str]) -> list[str]:
    """Return one line for each import of a module that the layers forbid."""
    if module.name == ROOT:
        return []
    own = _layer(module.name)
    if own < 0:
        return [_unplaced(module.name)]
    found: list[str] = []
    for line, target in _imports(module, names):
        place = f"{module.name}:{line}"
        other = _layer(target)
        if target == ROOT:
            found.append(f"{place} imports the package root: import the module that defines the name")
        elif other < 0:
            found.append(f"{place} imports a module without a place: {_unplaced(target)}")
        elif other > own:
            found.append(f"{place}: {module.name} (layer {own}) imports {target} (layer {other})")
        elif other == own != VALUES and _room(target) != _room(module.name):
            found.append(f"{place}: {module.name} imports {target}, a room of its own layer")
    return found


def _unplaced(module: str) -> str:
    return f"{module} is in no layer: add it to LAYERS in tests/house/test_import_direction.py"


def _layer(module: str) -> int:
    """Return the number of the module's layer, or -1."""
    return LAYER_OF.get(_room(module), -1)


def _room(module: str) -> str:
    """Return the package or module directly under the root to which a module belongs."""
    return ".".join(module.split(".")[:2])


def _imports(module: Module, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the target of each import of a module of the package."""
    for node in ast.walk(parsed(module.source)):
        if isinstance(node, ast.Import):
            targets = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module)
            # `from package import name` means the module of that name, if there is one.
            wanted = {f"{base}.{alias.name}" for alias in node.names}
            targets = {name if name in names else base for name in wanted}
        else:
            continue
        for target in sorted(targets):
            if target == ROOT or target.startswith(f"{ROOT}."):
                yield node.lineno, target


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    """Return the dotted name behind `from`, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])
