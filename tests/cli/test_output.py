"""What is printed of texts that others wrote."""

import pytest

from recollect.cli.output import make_printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07\x9b2J", "\ufffd[31mred\ufffd\ufffd2J"),
        ("a\u202eb\u2028c", "a\ufffdb\ufffdc"),
        ("a\r\nb\rc", "a\nb\ufffdc"),
        ("5\u00a0%\u202f!", "5\u00a0%\u202f!"),
        ("東京\u3000大阪", "東京\u3000大阪"),
        ("نمی\u200cشد 👩\u200d👧", "نمی\u200cشد 👩\u200d👧"),
    ],
)
def test_nothing_can_steer_a_terminal_and_every_script_can_be_read(text: str, shown: str) -> None:
    """French and Japanese are written with spaces of their own, Persian with joiners."""
    assert make_printable(text) == shown
