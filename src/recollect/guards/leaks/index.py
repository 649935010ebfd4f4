"""The text that must not be told, indexed for the search.

It is kept as its runs of eight letters. Those of its *core* begin a leak; the others only continue one that
has begun: words that the agent is to say, stock phrases that every prompt has, and what somebody may be
told.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from recollect.guards.leaks.letters import letters_of

PHRASES = (
    "You are a helpful assistant that",
    "You are a helpful AI assistant that",
    "You are a helpful, harmless and honest assistant",
    "You are a helpful and friendly assistant",
    "I am a helpful assistant that",
    "You are a large language model",
    "Be polite, friendly and concise",
    "Be helpful, polite and professional",
    "Answer the user's questions",
    "Answer the following question",
    "Let me know if you have any other questions",
    "Please let me know if you have any questions",
    "If you have any questions, feel free to ask",
    "If you do not know the answer, say that you do not know",
    "If you don't know the answer, just say that you don't know",
    "Think step by step",
    "How can I help you today?",
    "Du bist ein hilfreicher Assistent",
    "Sei freundlich und hilfsbereit",
    "Tu es un assistant utile",
    "Vous êtes un assistant utile",
    "Eres un asistente útil",
    "Sei un assistente utile",
    "Você é um assistente útil",
    "Ты полезный помощник",
    "你是一个有用的助手",
    "あなたは役に立つアシスタントです",
)
"""Phrases that may be said whether or not the instructions hold them."""

_PLAIN = (
    "a about ai all always an and answer answers any are as assistant at be bot brief but by can "
    "chatbot clear concise do does for friendly from good have he help helpful honest how i if in is "
    "it kind language like may me model must my never no not of on only or our please polite "
    "professional question questions reply respond say she short should speak talk task that the "
    "their them they this to try use user users very was we what when who will with you your"
)

PLAIN_WORDS = frozenset(_PLAIN.split())
"""Words that tell nothing about the instructions they stand in."""


GRAM = 8
"""How many letters a run has."""

_SHORTEST_SENTENCE = 12  # letters
_FEWEST_WORDS = 4
_TELLING_WORDS = 2  # of a sentence; the whole instructions need one
_SENTENCE_END = re.compile(r"[.!?;:\n\u3002\uff01\uff1f]+")
# Words in quotation marks are what the agent is to say, unless they are long enough to be rules.
_QUOTED = re.compile(
    r"\"([^\"\n]{1,120})\"|\u201c([^\u201d\n]{1,120})\u201d|\u201e([^\u201c\u201d\n]{1,120})[\u201c\u201d]"
    r"|\u00ab([^\u00bb\n]{1,120})\u00bb|\u300c([^\u300d\n]{1,120})\u300d"
)


@dataclass(frozen=True, slots=True)
class LeakIndex:
    """Runs of letters that begin a leak, that go on with one, and short sentences by their last run."""

    core: frozenset[str] = frozenset()
    every: frozenset[str] = frozenset()
    endings: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.core)

    def __or__(self, other: "LeakIndex") -> "LeakIndex":
        """Return an index of what both hold."""
        endings = dict(self.endings)
        for gram, sentences in other.endings.items():
            endings[gram] = endings.get(gram, ()) + sentences
        return LeakIndex(self.core | other.core, self.every | other.every, endings)

    def without(self, texts: Iterable[str]) -> "LeakIndex":
        """Return an index in which what the texts say begins no leak."""
        known = [letters_of(text) for text in texts]
        told = self.core.intersection(gram for letters in known for gram in _grams(letters))
        if not told:
            return self
        left = {
            gram: tuple(sentence for sentence in sentences if not any(sentence in text for text in known))
            for gram, sentences in self.endings.items()
        }
        return LeakIndex(self.core - told, self.every, left)


@lru_cache(maxsize=32)
def index_of_instructions(text: str) -> LeakIndex:
    """Return what begins and continues a leak of instructions."""
    letters = letters_of(text)
    every = frozenset(_grams(letters))
    sentences = {letters_of(part) for part in _SENTENCE_END.split(text) if _is_telling(part, _TELLING_WORDS)}
    if _is_telling(text, 1):
        sentences.add(letters)
    said = [quote for match in _QUOTED.finditer(text) for quote in match.groups() if quote]
    return LeakIndex(every, every, _by_last_gram(sentences)).without([*PHRASES, *said])


def index_of_block(frame: str, tag: str, text: str) -> LeakIndex:
    """Return what begins a leak of a block from memory, its frame, and what continues it, the rest."""
    core = frozenset(_grams(letters_of(frame)))
    return LeakIndex(core, core | frozenset(_grams(letters_of(text))), _by_last_gram({letters_of(tag)}))


def _grams(letters: str) -> Iterator[str]:
    return (letters[place : place + GRAM] for place in range(len(letters) - GRAM + 1))


def _is_telling(text: str, telling: int) -> bool:
    """Whether a short text, said as a whole, is more than a common phrase."""
    letters = letters_of(text)
    words = re.findall(r"\w+", text.casefold())
    is_wide = len(letters) > len(text)
    if len(letters) < _SHORTEST_SENTENCE or (len(words) < _FEWEST_WORDS and not is_wide):
        return False
    return is_wide or sum(word not in PLAIN_WORDS for word in words) >= telling


def _by_last_gram(sentences: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for sentence in sentences:
        gram = sentence[-GRAM:]
        found[gram] = (*found.get(gram, ()), sentence)
    return found
