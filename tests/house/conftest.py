"""What the tests of the house share."""

from collections.abc import Iterator

import pytest
from tests.support.garbage import no_collection


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """Collect no garbage while files are parsed.

    Collecting a task of an earlier test may print a traceback, for which Python 3.11 parses source code;
    within another parse that is a SystemError.
    """
    with no_collection():
        yield
