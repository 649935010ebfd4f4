"""What the tests of the house share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """Leave no garbage to be collected while files are parsed.

    Collecting a task of an earlier test may print a traceback, for which Python 3.11 parses source code;
    within another parse that is a SystemError.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()
