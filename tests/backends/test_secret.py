"""A secret shows itself nowhere."""

import copy
import json
import pickle

import pytest

from recollect import InvalidArgumentError
from recollect.backends.secret import Secret

KEY = "uk_very_hidden"


def test_a_secret_shows_itself_only_when_asked() -> None:
    """No way of printing it has any of its text, or its length."""
    secret = Secret(KEY)
    assert secret.reveal() == KEY
    printed = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>60}",
        repr({"key": secret}),
        repr([secret]),
    ]
    assert not any("hidden" in text for text in printed)
    assert str(secret) == str(Secret(KEY * 3))


def test_a_secret_is_not_written_out() -> None:
    """Pickles, copies and JSON are refused."""
    secret = Secret(KEY)
    for write in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            write(secret)
        assert KEY not in str(caught.value)


def test_secrets_compare_by_their_text() -> None:
    """Two with the same text are equal; a text is no secret."""
    assert Secret(KEY) == Secret(KEY)
    assert hash(Secret(KEY)) == hash(Secret(KEY))
    assert Secret(KEY) != Secret("another")
    assert Secret(KEY) != KEY


@pytest.mark.parametrize("text", ["", "  ", None, 5, b"key", f"{KEY}\x00"])
def test_what_cannot_be_a_secret_is_refused_without_quoting_it(text: object) -> None:
    """The message has nothing of the value."""
    with pytest.raises(InvalidArgumentError) as caught:
        Secret(text)
    assert KEY not in str(caught.value)
