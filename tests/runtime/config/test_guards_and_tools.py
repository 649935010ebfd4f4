"""Guards and tools that a configuration names."""

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from recollect import PIIDetector, TokenLimiterProcessor
from recollect.errors import ConfigError
from recollect.runtime.config.guards_and_tools import GUARDS, load_tools, make_guards
from recollect.runtime.config.settings import GuardConfig
from recollect.runtime.loader import EngineLoader


def guard(name: str, **options: object) -> GuardConfig:
    """Return a guard as the file lists it."""
    return GuardConfig.model_validate({"name": name, **options})


def test_every_guard_can_be_made_by_its_name() -> None:
    """Each stands on the side that it is for, in the order of the file."""
    needed: dict[str, dict[str, object]] = {"TokenLimiterProcessor": {"limit": 100}}
    guards = make_guards([guard(name, **needed.get(name, {})) for name in GUARDS])
    assert [type(item).__name__ for item in guards.input_side] == [
        name for name, (_, side) in GUARDS.items() if side != "output"
    ]
    assert [type(item).__name__ for item in guards.output_side] == [
        name for name, (_, side) in GUARDS.items() if side != "input"
    ]


def test_options_are_camel_case_and_a_side_can_be_chosen() -> None:
    """A secret option reaches the guard as text."""
    guards = make_guards(
        [
            guard("TokenLimiterProcessor", limit=50, messageOverhead=4, side="input"),
            guard("PIIDetector", method="hash", key=SecretStr("pepper"), side="output"),
        ]
    )
    assert [type(item) for item in guards.input_side] == [TokenLimiterProcessor]
    assert [type(item) for item in guards.output_side] == [PIIDetector]


@pytest.mark.parametrize(
    ("config", "key", "problem"),
    [
        (guard("PIIDetecter"), "guards[0]", "did you mean 'PIIDetector'?"),
        (guard("PIIDetector", strategy="delete"), "guards[0].strategy", "redact"),
        (guard("TokenLimiterProcessor", limit=5, messageOverhead=-1), "guards[0].messageOverhead", ""),
        (guard("PIIDetector", strateggy="block"), "guards[0].strateggy", "did you mean 'strategy'?"),
        (guard("PIIDetector", key="\ud800"), "guards[0]", "has an option that is not valid text"),
    ],
)
def test_a_wrong_guard_is_an_error_of_the_file(config: GuardConfig, key: str, problem: str) -> None:
    """It names the place, and what would be right."""
    with pytest.raises(ConfigError) as caught:
        make_guards([config])
    assert caught.value.key == key
    assert problem in caught.value.problem


def test_tools_are_imported_from_beside_the_configuration(tmp_path: Path) -> None:
    """Installed modules work as well."""
    (tmp_path / "recollect_test_tools.py").write_text(
        "def add(a: int, b: int) -> int:\n    return a + b\n", "utf-8"
    )
    try:
        add, dumps = load_tools(["recollect_test_tools:add", "json:dumps"], tmp_path)
    finally:
        sys.path.remove(str(tmp_path))
    assert add(2, 3) == 5
    assert dumps([1]) == "[1]"
    assert load_tools([], tmp_path) == []


def test_a_module_beside_the_file_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool of a name that Python or a package has is that one's, also for everybody else in the process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("def mine() -> None: ...\n", "utf-8")
    with pytest.raises(ConfigError, match="has no function of this name"):
        load_tools(["colorsys:mine"], tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_such_module_here:add", "cannot be imported: ModuleNotFoundError"),
        ("json:nothing", "has no function"),
        ("json:__name__", "has no function"),
        ("string:_re", "has no function"),
    ],
)
def test_a_tool_that_is_not_there_is_an_error_of_the_file(tmp_path: Path, name: str, problem: str) -> None:
    """It names the place in the list."""
    with pytest.raises(ConfigError, match=problem) as caught:
        load_tools([name], tmp_path)
    assert caught.value.key == "tools[0]"
    sys.path.remove(str(tmp_path))


def test_a_guard_twice_on_one_side_is_an_error_of_the_file() -> None:
    """On two sides each may have options of its own."""
    with pytest.raises(ConfigError, match="there is a PIIDetector on this side already"):
        make_guards([guard("PIIDetector"), guard("PIIDetector", side="output")])
    guards = make_guards([guard("PIIDetector", side="input"), guard("PIIDetector", side="output")])
    assert len(guards.input_side) == len(guards.output_side) == 1


def test_two_tools_of_one_name_fail_loading(tmp_path: Path) -> None:
    """One may be of the memory; it is said before anything is asked."""
    (tmp_path / "recollect_test_twice.py").write_text(
        "import functools\n\ndef memory() -> str:\n    return ''\n\nnameless = functools.partial(memory)\n",
        "utf-8",
    )
    try:
        for name, problem in (("memory", "two tools are called 'memory'"), ("nameless", "has no function")):
            (tmp_path / "config.json").write_text(f'{{"tools": ["recollect_test_twice:{name}"]}}', "utf-8")
            with pytest.raises(ConfigError, match=problem):
                EngineLoader(tmp_path).load()
    finally:
        sys.path.remove(str(tmp_path))
