"""The examples of the documentation run, and print what the documentation says they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import programs

import recollect

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
EXAMPLES = [
    pytest.param(code, output, id=f"{path.stem}-{number}")
    for path in DOCUMENTS
    for number, (code, output) in enumerate(EXAMPLE.findall(path.read_text("utf-8")), 1)
]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_example_prints_what_the_document_shows(code: str, output: str, tmp_path: Path) -> None:
    """Every Python block that is followed by its output runs as it stands, in an empty folder."""
    done = programs.run([], tmp_path, code=f"import warnings; warnings.simplefilter('error')\n{code}")
    assert done.stderr.decode() == ""
    assert done.stdout.decode() == output


def test_first_example_runs_in_a_python_of_its_own(tmp_path: Path) -> None:
    """Nothing of it needs what was imported before, as for the others to save time."""
    code, output = EXAMPLE.findall((ROOT / "README.md").read_text("utf-8"))[0]
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == (output, "")


def test_every_python_block_of_the_readme_is_tested() -> None:
    """No Python example of the README stands without the output that proves it."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.count("```python\n") == len(EXAMPLE.findall(readme)) > 0


def test_every_error_is_documented() -> None:
    """The page about storage explains each error that the package exports."""
    page = (ROOT / "docs" / "storage.md").read_text("utf-8")
    errors = [name for name in recollect.__all__ if name.endswith("Error") and name != "StorageError"]
    assert errors
    assert [name for name in errors if name not in page] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    """Every relative link in the documentation names a file that exists."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []
