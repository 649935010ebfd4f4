"""Generated messages: the same in every run, with word frequencies as in real text."""

import random
from collections.abc import Sequence

_SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ren",
    "vor",
    "el",
    "in",
    "sta",
    "qua",
    "pe",
    "du",
    "sho",
    "ger",
    "thi",
    "ble",
    "ly",
]
_WORDS = 4000
_LENGTH = 200
_SYLLABLE = 3  # the longest one
_ASKED = 6


class SampleTexts:
    """A source of messages of about 200 characters."""

    def __init__(self, seed: int = 7) -> None:
        """Generate a vocabulary; the n-th word is used 1/n as often as the first."""
        self._random = random.Random(seed)
        self._words = [self._make_word() for _ in range(_WORDS)]
        self._weights = [1 / rank for rank in range(1, _WORDS + 1)]

    def texts(self, count: int) -> list[str]:
        """Return so many texts."""
        return [self._make_text() for _ in range(count)]

    def turns(self, count: int) -> list[tuple[str, str]]:
        """Return so many pairs of a prompt and an answer."""
        return list(zip(self.texts(count), self.texts(count), strict=True))

    def questions(self, count: int) -> list[str]:
        """Return so many questions, of words with several syllables.

        Words of one syllable are as frequent here as stop words, which no search looks for.
        """
        content_words = [
            (word, weight)
            for word, weight in zip(self._words, self._weights, strict=True)
            if len(word) > _SYLLABLE
        ]
        words, weights = zip(*content_words, strict=True)
        return [" ".join(self._random.choices(words, weights, k=_ASKED)) + "?" for _ in range(count)]

    def shuffled(self, values: Sequence[int]) -> list[int]:
        """Return the values in random order."""
        mixed = list(values)
        self._random.shuffle(mixed)
        return mixed

    def _make_word(self) -> str:
        return "".join(self._random.choices(_SYLLABLES, k=self._random.randint(1, 3)))

    def _make_text(self) -> str:
        words = self._random.choices(self._words, self._weights, k=self._random.randint(25, 45))
        return " ".join(words)[: _LENGTH + 40].capitalize() + "."
