"""What `recollect.testing` gives to the tests of others."""

import asyncio
import textwrap
from datetime import UTC, datetime, timedelta
from typing import Any

import recollect.testing
from recollect.testing import ScriptedClock


def test_the_example_of_the_module_runs() -> None:
    """The test that the docstring shows passes as it stands."""
    lines = (recollect.testing.__doc__ or "").splitlines(keepends=True)
    code = textwrap.dedent("".join(line for line in lines if line.startswith((" ", "\n"))))
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own text
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    asyncio.run(test())


def test_clock_stands_still_until_it_is_told_to_go_on() -> None:
    """The time is what the test says, and seconds may go back."""
    clock = ScriptedClock(datetime(2026, 5, 1, tzinfo=UTC))
    assert clock() == clock() == datetime(2026, 5, 1, tzinfo=UTC)
    assert clock.tick() == clock() == datetime(2026, 5, 1, 0, 0, 1, tzinfo=UTC)
    clock.tick(-2)
    assert clock() == datetime(2026, 5, 1, tzinfo=UTC) - timedelta(seconds=1)
    clock.time = datetime(2027, 1, 1, tzinfo=UTC)
    assert clock() == datetime(2027, 1, 1, tzinfo=UTC)
