"""Keys, tokens and passwords: by the prefixes that their makers gave them, or by the word before them.

A private key is the block from its BEGIN line to its END line, also if the end is missing.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from recollect.guards.detection import Detection
from recollect.guards.pii.context_words import find_word_start, has_any
from recollect.guards.pii.kinds import REACH, DataKind

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{12,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{12,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|sk-(?:proj|svcacct|admin|ant|or|lf)-[A-Za-z0-9_-]{8,}|sk-[A-Za-z0-9]{16,}(?![A-Za-z0-9])"
    r"|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,}"
    r"|npm_[A-Za-z0-9]{24,}|pypi-[A-Za-z0-9_-]{32,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|dop_v1_[0-9a-f]{32,}|dckr_pat_[A-Za-z0-9_-]{16,}"
    r"|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{16,}|sq0[a-z]{3}-[0-9A-Za-z_-]{16,}|SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,}"
    r"|SK[0-9a-f]{32}(?![0-9A-Za-z])|[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,3}"
    r"|(?<!base64,)eyJ[A-Za-z0-9_-]{128,}"  # a stream cannot wait for what follows so long a head
    r"|AGE-SECRET-KEY-1[0-9A-Z]{20,})"
)
_WEB_TOKEN_OPEN = re.compile(r"(?<![A-Za-z0-9_])eyJ[A-Za-z0-9_-]{0,128}(?:\.[A-Za-z0-9_-]{0,8})?\Z")
_WEBHOOK = re.compile(r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{16,})")
_HEADER = re.compile(r"\b(?:[Bb]earer|[Bb]asic|BEARER)[ \t]{1,3}([A-Za-z0-9+/_.~-]{12,}={0,2})")
_JUDGED = 128  # how much of a secret says whether it is one: a stream cannot wait for more
_VALUE_LETTER = r"[^\s\"'`<>,;\u3001\u3002\uff0c\uff1b]"
_LABEL = re.compile(
    r"(?-i:(?<![A-Za-z0-9])|(?<=[a-z0-9])(?=[A-Z])|(?=PASSW))(?P<label>pass(?:word|wd|phrase|code|wort)|pwd|kennwort"
    r"|mot de passe|contrase[nñ]a|senha"
    r"|wachtwoord|l[oö]senord|adgangskode|has[lł]o|salasana|парол[ья]|密码|密碼|パスワード|비밀번호"
    r"|pin(?:[ -]?code)?|(?P<code>cvv2?|cvc2?)|otp"
    r"|(?P<key>(?:api|secret|access|private|auth|client|encryption|signing|account|master)"
    r"(?:[_ -]?(?:access|secret|auth))?[_ -]?(?:key|token|secret)|token|secret|apikey|credentials?))"
    r"[\"'`]?[ \t]{0,3}(?:(?:was|is|ist|lautet|es|est|era|e[r]?|är|jest|zu|to)[ \t]{1,2}|[:=]{1,2}>?|\uff1a"
    r"|->|は|è |é |это )[ \t]{0,3}(?:is )?"
    rf"(?P<quote>[\"'`]?)(?P<value>{_VALUE_LETTER}{{3,{_JUDGED}}})",
    re.IGNORECASE,
)
_VALUE = re.compile(f"{_VALUE_LETTER}*")
_WORDS = (
    *("pass", "pwd", "wort", "contra", "senha", "wacht", "senord", "kode", "has", "salas", "парол", "密"),
    *("パス", "비밀", "pin", "cvv", "cvc", "otp", "key", "token", "secret", "credential"),
)
_LETTER_PREFIXES = ("AKIA", "ASIA", "ABIA", "ACCA", "AIza", "SG.", "eyJ", "whsec_", "hooks.slack.com")
_JOINED = re.compile(r"[_-](?=[A-Za-z0-9_-]{8})")
_TRAILING = ".,!?)]}:"
_MORE = "a1"  # goes on with any secret that can go on
_CODE = re.compile(
    r"[${(<%\[]|[A-Za-z_.]+[(\[]|\*+$|\.\.\.|[Xx]+$|[A-Za-z_]+\.[A-Za-z_.]+$|\[?REDACTED"
    r"|(?:[.~]{1,2})?/[a-z][a-z0-9_.-]*/|[A-Z]:\\"  # where a file is
)
_SYMBOLS = re.compile(r"[!#$%^&*~?][A-Za-z0-9]")
_KEY_SIZE, _WORD_SIZE, _CODE_SIZE = 8, 4, 3
_HEADER_SCORE, _LABEL_SCORE = 0.9, 0.85
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,15}://([^\s/@:\"'<>]{0,60}:[^\s/\"'<>]{1,100})@")
_URL_OPEN = re.compile(r"[^\s/\"'<>]*\Z")
_USER_INFO = 170
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BEGIN_MARK = "-----BEGIN "
_BLANK = r"\s{0,40}"  # breaks that are written out are real ones by now
_CODES = r"[A-Za-z0-9+/=]"
_HEADER_NAME = r"[A-Za-z-]{3,20}: "
# Such as how it is encrypted; without lines, each ends where another or the key itself begins. What has
# matched is not tried again in another way, which could take forever.
_HEADERS = (
    rf"(?>\s{{0,20}}{_HEADER_NAME}[^\n]{{0,72}}?"
    rf"(?=\n|\s{{1,20}}(?:{_CODES}{{20}}|{_CODES}+{_BLANK}-----END|{_HEADER_NAME})))"
)
_BODY = re.compile(
    rf"{_HEADERS}*+(?:{_BLANK}(?:{_CODES}{{20,}}|(?=[A-Za-z]{{0,19}}[0-9+/=]){_CODES}+|{_CODES}+(?={_BLANK}-----END)))+"
    rf"(?P<end>{_BLANK}-----END [A-Z0-9 ]{{0,60}}-----)?"
)
_ONLY_HEADERS = re.compile(f"{_HEADERS}++")
_OPEN_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}\Z")
_OPEN_BODY = re.compile(
    rf"{_HEADERS}*+{_BLANK}(?:[A-Za-z-]{{0,20}}(?:: ?[^\n]{{0,100}})?|{_CODES}*"
    rf"|(?:[A-Za-z]{{1,19}}{_BLANK})?(?:-[-A-Z0-9 ]{{0,70}})?)\Z"
)


def _find_tokens(text: str) -> Iterator[Detection]:
    """Find tokens by their beginnings, and credentials in URLs."""
    for found in _TOKEN.finditer(text):
        yield Detection("secret", *found.span())
    if "://" in text:
        for found in _URL.finditer(text):
            yield Detection("secret", *found.span(1))
    if "hooks.slack.com" in text:
        for found in _WEBHOOK.finditer(text):
            yield Detection("secret", *found.span(1))


def _open_token(text: str) -> int:
    return min(_open_url(text), _open_web_token(text), _open_word(_find_tokens, text))


def _open_web_token(text: str) -> int:
    if "eyJ" not in text:
        return len(text)
    token = _WEB_TOKEN_OPEN.search(text, max(0, len(text) - 2 * _JUDGED))
    return token.start() if token else len(text)


def _find_in_headers(text: str) -> Iterator[Detection]:
    for found in _HEADER.finditer(text):
        if any(char.isdigit() for char in found[1][:_JUDGED]):
            yield Detection("secret", *found.span(1), _HEADER_SCORE)


def _find_labelled(text: str) -> Iterator[Detection]:
    """Find what a label names, as in "password: …"."""
    if has_any(_WORDS, text.lower()):
        yield from _find_after_labels(text)


def _open_word(find: Callable[[str], Iterator[Detection]], text: str) -> int:
    """Return where a secret begins that the last word goes on with; short ones wait as words."""
    tail = text[-REACH - 1 :]
    if len(tail) <= REACH or " " in tail or "\n" in tail or "\t" in tail:
        return len(text)
    begin = max(0, find_word_start(text) - REACH)
    longer = text[begin:] + _MORE
    return min((begin + item.start for item in find(longer) if item.end == len(longer)), default=len(text))


def has_token_prefix(text: str) -> bool:
    """Whether a text may hold a token that has neither digits nor symbols, as a few do."""
    return has_any(_LETTER_PREFIXES, text)


def has_secret_words(text: str, start: int) -> bool:
    """Whether words after a place, with digits or symbols as secrets have them, may be one."""
    if _JOINED.search(text, start) and _TOKEN.search(text, start):
        return True
    return has_any(_WORDS, text.lower()) and _LABEL.search(text) is not None


def _open_url(text: str) -> int:
    place = text.rfind("://")
    if place < 0 or len(text) - place > _USER_INFO or not _URL_OPEN.match(text, place + 3):
        return len(text)
    return max(0, place - 16)


def _find_after_labels(text: str) -> Iterator[Detection]:
    found, end = _LABEL.search(text), 0
    while found:
        start, value = found.start("value"), found["value"]
        if _is_secret(value if len(value) == _JUDGED else value.rstrip(_TRAILING), found):
            # Labels within a value are read too, and what they name ends where it does.
            end = end if start < end else cast("re.Match[str]", _VALUE.match(text, start)).end()
            yield Detection("secret", start, start + len(text[start:end].rstrip(_TRAILING)), _LABEL_SCORE)
        found = _LABEL.search(text, start)


def _is_secret(value: str, label: re.Match[str]) -> bool:
    """Whether a word after a label is a secret: prose has no digits there, code has brackets."""
    is_key = label["key"] is not None
    least = _KEY_SIZE if is_key else _CODE_SIZE if label["code"] else _WORD_SIZE
    if len(value) < least or _CODE.match(value):
        return False
    digits = sum(char.isdigit() for char in value)
    if is_key:
        return 0 < digits < len(value)
    return digits > 0 or _SYMBOLS.search(value) is not None


def _find_private_keys(text: str) -> Iterator[Detection]:
    """Find private keys; a mention of the line that begins one, with no key after it, is none."""
    for place, body in _iter_keys(text):
        if body:
            yield Detection("secret", place, body.end())


def _open_private_key(text: str) -> int:
    """Return where a key begins that has not ended at the end of a text."""
    for place, body in _iter_keys(text):
        if _is_open_key(text, place, body):
            return place
    return len(text)


def _iter_keys(text: str) -> Iterator[tuple[int, re.Match[str] | None]]:
    """Yield where each line that may begin a key stands, and the key after it if there is one.

    Headers alone are one too: a stream cannot wait for what follows them.
    """
    place = text.find(_BEGIN_MARK)
    while place >= 0:
        begin = _BEGIN.match(text, place)
        body = begin and (_BODY.match(text, begin.end()) or _ONLY_HEADERS.match(text, begin.end()))
        yield place, body
        place = text.find(_BEGIN_MARK, body.end() if body else place + 1)


def _is_open_key(text: str, place: int, body: re.Match[str] | None) -> bool:
    """Whether a key that begins at a place may go on after the end of a text."""
    if body:
        is_ended = body.re is _BODY and body["end"]
        return not is_ended and _OPEN_BODY.match(text, body.end()) is not None
    begin = _BEGIN.match(text, place)
    return bool(_OPEN_BODY.match(text, begin.end()) if begin else _OPEN_HEADER.match(text, place))


SECRETS = (
    DataKind("secret", _find_tokens, _open_token),
    DataKind("secret", _find_in_headers, partial(_open_word, _find_in_headers), best=_HEADER_SCORE),
    DataKind("secret", _find_labelled, partial(_open_word, _find_labelled), best=_LABEL_SCORE),
    DataKind("secret", _find_private_keys, _open_private_key),
)
