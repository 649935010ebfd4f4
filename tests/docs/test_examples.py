"""The examples of the documentation run, and print what the documentation says they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert result.stderr == ""
    assert result.stdout == output


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
