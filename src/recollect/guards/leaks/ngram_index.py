"""An index of the protected text: the n-grams of its letters, eight letters each.

*Core* n-grams can begin a leak. The others only continue one that has begun: words that the agent is meant to
say, phrases that most prompts contain, and what the user may know.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from recollect.guards.leaks.letter_reader import extract_letters

COMMON_PHRASES = (
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
"""Phrases that are no leak even if the instructions contain them."""

_COMMON = (
    "a about ai all always an and answer answers any are as assistant at be bot brief but by can "
    "chatbot clear concise do does for friendly from good have he help helpful honest how i if in is "
    "it kind language like may me model must my never no not of on only or our please polite "
    "professional question questions reply respond say she short should speak talk task that the "
    "their them they this to try use user users very was we what when who will with you your"
)

COMMON_WORDS = frozenset(_COMMON.split())
"""Words that reveal nothing about the instructions."""


NGRAM = 8
"""How many letters an n-gram has."""

_MIN_SENTENCE = 12  # letters
_MIN_WORDS = 4
_DISTINCTIVE_WORDS = 2  # of a sentence; the whole instructions need one
_SENTENCE_END = re.compile(r"[.!?;:\n\u3002\uff01\uff1f]+")
# Words in quotation marks are what the agent is to say, unless they are long enough to be rules.
_QUOTED = re.compile(
    r"\"([^\"\n]{1,120})\"|\u201c([^\u201d\n]{1,120})\u201d|\u201e([^\u201c\u201d\n]{1,120})[\u201c\u201d]"
    r"|\u00ab([^\u00bb\n]{1,120})\u00bb|\u300c([^\u300d\n]{1,120})\u300d"
)


@dataclass(frozen=True, slots=True)
class NgramIndex:
    """N-grams that can begin a leak, all n-grams, and short sentences by their last n-gram."""

    core_ngrams: frozenset[str] = frozenset()
    all_ngrams: frozenset[str] = frozenset()
    endings: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.core_ngrams)

    def __or__(self, other: "NgramIndex") -> "NgramIndex":
        """Return an index of what both hold."""
        endings = dict(self.endings)
        for ngram, sentences in other.endings.items():
            endings[ngram] = endings.get(ngram, ()) + sentences
        return NgramIndex(self.core_ngrams | other.core_ngrams, self.all_ngrams | other.all_ngrams, endings)

    def without(self, texts: Iterable[str]) -> "NgramIndex":
        """Return an index in which the n-grams of some texts begin no leak."""
        known = [extract_letters(text) for text in texts]
        allowed = self.core_ngrams.intersection(ngram for letters in known for ngram in _iter_ngrams(letters))
        if not allowed:
            return self
        left = {
            ngram: tuple(sentence for sentence in sentences if not any(sentence in text for text in known))
            for ngram, sentences in self.endings.items()
        }
        return NgramIndex(self.core_ngrams - allowed, self.all_ngrams, left)


@lru_cache(maxsize=32)
def index_instructions(text: str) -> NgramIndex:
    """Index instructions: all their n-grams are core, but for common phrases and quotations."""
    letters = extract_letters(text)
    every = frozenset(_iter_ngrams(letters))
    sentences = {
        extract_letters(part)
        for part in _SENTENCE_END.split(text)
        if _is_distinctive(part, _DISTINCTIVE_WORDS)
    }
    if _is_distinctive(text, 1):
        sentences.add(letters)
    said = [quote for match in _QUOTED.finditer(text) for quote in match.groups() if quote]
    return NgramIndex(every, every, _group_by_last_ngram(sentences)).without([*COMMON_PHRASES, *said])


def index_block(frame: str, tag: str, text: str) -> NgramIndex:
    """Index a block from memory: the n-grams of its frame are core, those of the rest are not."""
    core = frozenset(_iter_ngrams(extract_letters(frame)))
    return NgramIndex(
        core,
        core | frozenset(_iter_ngrams(extract_letters(text))),
        _group_by_last_ngram({extract_letters(tag)}),
    )


def _iter_ngrams(letters: str) -> Iterator[str]:
    return (letters[place : place + NGRAM] for place in range(len(letters) - NGRAM + 1))


def _is_distinctive(text: str, minimum: int) -> bool:
    """Whether a short text, said as a whole, is more than a common phrase."""
    letters = extract_letters(text)
    words = re.findall(r"\w+", text.casefold())
    is_wide = len(letters) > len(text)
    if len(letters) < _MIN_SENTENCE or (len(words) < _MIN_WORDS and not is_wide):
        return False
    return is_wide or sum(word not in COMMON_WORDS for word in words) >= minimum


def _group_by_last_ngram(sentences: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for sentence in sentences:
        ngram = sentence[-NGRAM:]
        found[ngram] = (*found.get(ngram, ()), sentence)
    return found
