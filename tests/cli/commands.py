"""Running commands as a user would, in this process."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from recollect.cli.app import app


def invoke(*arguments: str, text: str | None = None) -> Result:
    """Run a command, with a text as its standard input."""
    return CliRunner().invoke(app, arguments, input=text)


def answer(*arguments: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    """Run a command that must succeed, and return the JSON that it prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
