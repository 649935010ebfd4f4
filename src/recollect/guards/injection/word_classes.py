"""Turns a text into a string of word classes, one letter for each word or symbol.

The rules are patterns over that string. So one rule says "a verb of dismissal, then something earlier, then
a word for instructions" in all languages at once. `lexicon.txt` lists the words of each class. Spaced-out
letters, digits for letters, words without spaces between them, and swapped letters are seen through;
`encodings` finds what is encoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from recollect.text.folding import FoldedText, fold

if TYPE_CHECKING:
    from collections.abc import Iterator

LexiconPart: TypeAlias = Literal["guard", "standing orders"]
"""The words that the guard knows, or those of the rules about remembered text."""
GLUE = frozenset(
    re.findall(
        r"\w+",
        """all any the and your my to of is me in on it a i you say not with for now only from that this what
        as at be do no so or""",
    )
)
"""Small words that may stand between known ones where all spaces were left out."""
CORE = tuple(
    re.findall(
        r"\w+",
        """ignore disregard forget override bypass previous prior earlier above instruction instructions
        directive directives prompt prompts command commands guidelines guideline system secret password
        access granted reveal display repeat output respond reply answer restrictions restriction hidden
        developer unrestricted jailbreak code""",
    )
)
"""Words that are known even if letters are swapped or missing."""
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"  # Thai, Japanese, Chinese: no spaces between words
# Words of these have marks that are no letters; the two left out are the ends of a sentence.
_INDIC = "[\u0900-\u0963\u0966-\u0dff]"
_LETTER = rf"[^\W_{_UNSPACED}]"
_FORMS = (
    r"(?P<url>https?://[^\s\"'<>]{3,2000}|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8})"
    r"|(?<![^\W_])(?P<spaced>[^\W\d_](?:[ .\-_*|/][^\W\d_]){2,400})(?![^\W_])"
    rf"|(?P<indic>{_INDIC}{{1,64}})|(?P<word>{_LETTER}{{1,64}}(?:['\u2019\-]{_LETTER}{{1,64}}){{0,4}})"
    rf"|(?P<unspaced>[{_UNSPACED}]{{1,400}})"
    r"|(?P<end>[.!?\u061f\u0964\u0965\u3002\uff01\uff1f\n]{1,400})|(?P<symbol>[^\w\s])"
)
# What only remembered text is looked at for: names of hosts and files, and how a command reads a file.
_STANDING_FORMS = (
    r"(?P<local>https?://(?:localhost|127\.|10\.|192\.168\.|0\.0\.0\.0|\[::1\])[^\s\"'<>]{0,2000})"
    r"|(?P<host>https?://[^\s\"'<>$`]{1,2000}|\b[\w-]{1,64}\.(?:com|net|org|io|dev|app|ai|co|ru|cn|xyz|top|site|info|biz|me|example)\b)"
    r"|(?P<file>(?<![\w*])\.env\b|\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/|/etc/(?:passwd|shadow)\b"
    r"|\.netrc\b|\.pgpass\b|\.kube/config\b)"
    r"|(?P<read>\$\(|`|@|--post-file\b|(?<=\s)-t\b)|(?P<name>[\w-]{1,64}(?:\.[\w-]{1,64}){1,8})|"
)
_LEET = re.compile(r"(?<![\w@$])(?=[a-z0-9@$]{0,30}[a-z])(?=[a-z@$]{0,30}[0-9@$])[a-z0-9@$]{3,30}(?![\w@$])")
_JOINTS = re.compile(r"['\u2019\-]")
_SYMBOL_LETTERS = {
    **dict.fromkeys("\"'\u201c\u201d\u00ab\u00bb\u2018\u2019\u300c\u300d\u201e`", '"'),
    **dict.fromkeys(",;\u060c\u061b\uff0c\u3001\u2014\u2013-*|", ","),
    **dict.fromkeys(":\uff1a=>$", ":"),
    **dict.fromkeys("([{<\uff08", "("),
}
_LEET_LETTERS = (
    str.maketrans("0134578@$", "oieastbas"),
    str.maketrans("0134578@$", "oleastbas"),
)
SYMBOLS = {
    "UNKNOWN": "x",
    "URL": "u",
    "STOP": ".",
    "COMMA": ",",
    "COLON": ":",
    "QUOTE": '"',
    "OPEN": "(",
    "SYMBOL": ")",
    "FILE": "~",
    "READ": "@",
}
"""The letters of what is no word of the lexicon."""
_UNKNOWN = SYMBOLS["UNKNOWN"]
_SECTION = re.compile(r"^\[([A-Z-]+)(?: (\S))?\][^\n]*\n([^\[]*)", re.MULTILINE)
_FIRST_STANDING_LETTER = 0x100  # its classes have no weights, so that their letters are nobody's business
_LONG_WORD = 14
_SHORTEST_SCRAMBLED = 5
_PREFIX = 3
_LONGEST_PHRASE = 12


class WordClass(NamedTuple):
    """A class of the lexicon: its name in the rules, its letter, and its words."""

    name: str
    letter: str
    words: list[str]


@cache
def load_word_classes(part: LexiconPart) -> list[WordClass]:
    """Read the classes, in the order of the file."""
    text = resources.files(__package__ or "").joinpath("lexicon.txt").read_text("utf-8")
    guard, _, standing = text.partition("\n[standing orders]\n")
    sections = enumerate(_SECTION.finditer(guard if part == "guard" else standing), _FIRST_STANDING_LETTER)
    return [
        WordClass(section[1], section[2] or chr(number), _split_words(section[3]))
        for number, section in sections
    ]


@cache
def load_class_letters(part: LexiconPart = "guard") -> dict[str, str]:
    """Return the letter of each class by its name, those of symbols included."""
    return {**SYMBOLS, **{one.name: one.letter for one in load_word_classes(part)}}


@cache
def get_letters(*names: str) -> frozenset[str]:
    """Return the letters of classes that the guard knows."""
    return frozenset(load_class_letters()[name] for name in names)


def _split_words(lines: str) -> list[str]:
    """Return the words of a class; a phrase may go on in the next line."""
    return [word for word in (" ".join(part.split()) for part in lines.split(",")) if word]


class ClassifiedText(NamedTuple):
    """A text as the letters of its classes, and where the word or symbol of each letter stands."""

    letters: str
    spans: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Lexicon:
    token: re.Pattern[str]
    words: dict[str, str]
    prefixes: dict[str, list[tuple[str, str]]]
    phrases: dict[str, list[tuple[tuple[str, ...], str]]]
    unspaced: re.Pattern[str]
    scrambled: dict[tuple[str, str, str], str]
    short: dict[str, str]


class _Token(NamedTuple):
    word: str
    start: int
    end: int
    letter: str = ""  # of the class, where the form of the token says it


def classify_words(text: str, part: LexiconPart = "guard") -> ClassifiedText:
    """Return the classes of the words of a text; spans are those of the text as it was given."""
    folded = fold(text)
    lexicon = _load_lexicon(part)
    tokens = list(_tokenize(_replace_leet(folded.text, lexicon), lexicon))
    return _classify(tokens, folded, lexicon)


def _classify(tokens: list[_Token], folded: FoldedText, lexicon: _Lexicon) -> ClassifiedText:
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        letter, size = (token.letter, 1) if token.letter else _find_phrase(tokens, place, lexicon)
        letters.append(letter or _look_up_letter(token.word, lexicon))
        spans.append(folded.span(token.start, tokens[place + size - 1].end))
        place += size
    return ClassifiedText("".join(letters), spans)


def _find_phrase(tokens: list[_Token], place: int, lexicon: _Lexicon) -> tuple[str, int]:
    """Find the longest phrase that begins with a token."""
    for words, kind in lexicon.phrases.get(tokens[place].word, ()):
        if size := _match_phrase(tokens, place, words):
            return kind, size
    return "", 1


def _match_phrase(tokens: list[_Token], place: int, words: tuple[str, ...]) -> int:
    """Return how many tokens a phrase takes up, or 0; quotation marks and symbols may stand within."""
    end = place
    for word in words:
        while (
            end > place
            and end < len(tokens)
            and end - place < _LONGEST_PHRASE
            and tokens[end].letter in ('"', ")")
        ):
            end += 1
        if end >= len(tokens) or tokens[end].word != word:
            return 0
        end += 1
    return end - place


def _tokenize(plain: str, lexicon: _Lexicon) -> Iterator[_Token]:
    """Split plain text into words and symbols."""
    for match in lexicon.token.finditer(plain):
        start, end = match.span()
        match match.lastgroup:
            case "url" | "host":
                yield _Token("", start, end, SYMBOLS["URL"])
            case "file" | "read":
                yield _Token("", start, end, SYMBOLS[match.lastgroup.upper()])
            case "local" | "name":
                yield _Token("", start, end, _UNKNOWN)
            case "end":
                # A single line break may stand anywhere in a sentence.
                yield _Token("", start, end, "," if match[0] == "\n" else ".")
            case "symbol":
                yield _Token("", start, end, _SYMBOL_LETTERS.get(match[0], ")"))
            case "unspaced":
                yield from _split_unspaced(match[0], start, lexicon)
            case "spaced":
                yield from _split_glued(match[0][::2], start, 2, lexicon)
            case _:
                yield from _split_word(match[0], start, lexicon)


def _split_word(word: str, start: int, lexicon: _Lexicon) -> Iterator[_Token]:
    """Yield a word, or its parts where only these are known."""
    if word in lexicon.words or word in lexicon.phrases:
        yield _Token(word, start, start + len(word))
    elif not word.isalnum():
        place = 0
        for part in _JOINTS.split(word):
            if part:
                yield _Token(part, start + place, start + place + len(part))
            place += len(part) + 1
    elif len(word) >= _LONG_WORD:
        yield from _split_glued(word, start, 1, lexicon)
    else:
        yield _Token(word, start, start + len(word))


def _split_glued(letters: str, start: int, step: int, lexicon: _Lexicon) -> Iterator[_Token]:
    """Split letters without spaces into known words, if all are known; `step` is from letter to letter."""
    place = 0
    for size in _find_shortest_split(letters, lexicon) or [len(letters)]:
        first = start + place * step
        yield _Token(letters[place : place + size], first, first + (size - 1) * step + 1)
        place += size


def _find_shortest_split(letters: str, lexicon: _Lexicon) -> list[int]:
    """Return the lengths of the fewest known words that make up the letters; none if they do not."""
    if letters in lexicon.words or len(letters) < _SHORTEST_SCRAMBLED:
        return []
    best: list[list[int] | None] = [None] * (len(letters) + 1)
    best[0] = []
    for end in range(1, len(letters) + 1):
        for size in range(1, min(end, 16) + 1):
            before = best[end - size]
            if before is None or letters[end - size : end] not in lexicon.short:
                continue
            known = best[end]
            if known is None or len(before) + 1 < len(known):
                best[end] = [*before, size]
    return best[-1] or []


def _split_unspaced(run: str, start: int, lexicon: _Lexicon) -> Iterator[_Token]:
    """Split Chinese, Japanese or Thai text at the words that are known."""
    place = 0
    for match in lexicon.unspaced.finditer(run):
        if match.start() > place:
            yield _Token("", start + place, start + match.start(), _UNKNOWN)
        yield _Token(match[0], start + match.start(), start + match.end())
        place = match.end()
    if place < len(run):
        yield _Token("", start + place, start + len(run), _UNKNOWN)


@lru_cache(maxsize=8192)
def _look_up_letter(word: str, lexicon: _Lexicon) -> str:
    if found := lexicon.words.get(word):
        return found
    for prefix, kind in lexicon.prefixes.get(word[:_PREFIX], ()):
        if word.startswith(prefix):
            return kind
    if len(word) >= _SHORTEST_SCRAMBLED:
        return lexicon.scrambled.get(_scramble_key(word)) or lexicon.short.get(f"?{word}", _UNKNOWN)
    return _UNKNOWN


def _replace_leet(plain: str, lexicon: _Lexicon) -> str:
    """Write digits in words as the letters they stand for, where that makes a known word."""
    return _LEET.sub(lambda match: _spell_leet(match, lexicon.words), plain)


def _spell_leet(match: re.Match[str], words: dict[str, str]) -> str:
    for letters in _LEET_LETTERS:
        word = match[0].translate(letters)
        if word in words or word in GLUE:
            return word
    return match[0]


def _scramble_key(word: str) -> tuple[str, str, str]:
    """Return what stays the same when letters within a word are swapped."""
    return word[0], word[-1], "".join(sorted(word[1:-1]))


@cache
def _load_lexicon(part: LexiconPart) -> _Lexicon:
    """Make the tables, once."""
    words: dict[str, str] = {}
    prefixes: dict[str, list[tuple[str, str]]] = {}
    phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for _, kind, entries in load_word_classes(part):
        for entry in (fold(entry).text for entry in entries):
            parts = tuple(re.split(r" +", entry))
            if len(parts) > 1:
                phrases.setdefault(parts[0], []).append((parts, kind))
            elif entry.endswith("*"):
                prefixes.setdefault(entry[:_PREFIX], []).append((entry[:-1], kind))
            else:
                words[entry] = kind
    for found in phrases.values():
        found.sort(key=lambda item: -len(item[0]))
    unspaced = sorted((word for word in words if re.match(rf"[{_UNSPACED}]", word)), key=len, reverse=True)
    known = {word: words[word] for word in words if len(word) > 2 and word.isascii()}  # noqa: PLR2004 - shorter ones fit anywhere
    short = known | dict.fromkeys([*GLUE, *CORE], "x") | _drop_letters(words)
    scrambled = {
        _scramble_key(word): words[word] for word in CORE if len(word) > _SHORTEST_SCRAMBLED and word in words
    }
    token = re.compile(_FORMS if part == "guard" else _STANDING_FORMS + _FORMS)
    unspaced_words = re.compile("|".join(map(re.escape, unspaced)))
    return _Lexicon(token, words, prefixes, phrases, unspaced_words, scrambled, short)


def _drop_letters(words: dict[str, str]) -> dict[str, str]:
    """Return long words of the core with one letter left out, marked as such."""
    return {
        f"?{word[:place]}{word[place + 1 :]}": words[word]
        for word in CORE
        if len(word) > _SHORTEST_SCRAMBLED and word in words
        for place in range(1, len(word))
    }
