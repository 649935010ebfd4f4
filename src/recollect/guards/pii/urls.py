"""Addresses on the web: with a scheme, with www, or a bare domain under a name that is used for them."""

import re
from collections.abc import Iterator

from recollect.guards.pii.context_words import begin_of_word, words_before
from recollect.guards.pii.finding import Finding

_GENERIC = (
    "com net org edu gov mil info biz io ai co app dev xyz online site shop store tech cloud blog club pro "
    "mobi museum travel jobs cat asia tel post aero coop global agency digital email live news space world "
    "website design studio academy network solutions company group life today center systems services "
    "software media eu technology consulting photography university institute foundation restaurant rentals "
    "international industries productions ventures recipes ninja guru lawyer "
    "insurance clinic dental hospital church hotel cafe pizza coffee yoga fitness fashion jewelry vacations "
    "apartments realty plumbing catering wedding marketing berlin hamburg koeln london paris nyc amsterdam "
    "wien tokyo swiss bayern ruhr scot wales brussels vlaanderen quebec boston miami vegas sydney melbourne "
    "kiwi africa istanbul moscow"
)
_COUNTRIES = (
    "ac ad ae af ag ai al am ao aq ar at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz "
    "ca cd cf cg ch ci ck cl cm cn cr cu cv cw cx cy cz de dj dk dm dz ec ee eg er es et fi fj fk fm fo fr "
    "ga gb gd ge gf gg gh gi gl gm gp gq gr gt gu gw gy hk hm hn hr ht hu ie il im iq ir it je jm jo jp ke "
    "kg kh ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc me mg mh mk mm mn mo mp mq mr mt "
    "mu mv mw mx mz na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr pt pw qa re ro ru "
    "rw sa sb sc sd se sg si sk sl sm sn sr ss su sv sx sy sz tc td tf tg th tj tk tl tm tn tr tt tv tw tz "
    "ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw in рф укр бел"
)
_ENDINGS = frozenset((_GENERIC + " " + _COUNTRIES).split())
_SCHEME = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:https?|ftps?|sftp|wss?|ssh|git)://|(?<!@)www\d?\.(?=[A-Za-z0-9]))[^\s<>\"'`|\\^{}\u3000-\u303f]+",
    re.IGNORECASE,
)
_L = "A-Za-z\u00c0-\u024f\u0400-\u04ff"
_LONGEST_HOST = 120  # a stream can wait for no longer one
_BEFORE_HOST = rf"(?<![{_L}0-9@._/\\:$-])(?<![=(]['\"])"
_HOST_OPEN = re.compile(rf"{_BEFORE_HOST}[{_L}0-9.-]{{1,{_LONGEST_HOST}}}\Z")
_BARE = re.compile(
    rf"{_BEFORE_HOST}(?![{_L}0-9.-]{{{_LONGEST_HOST + 1}}})"
    rf"(?:[{_L}0-9](?:[{_L}0-9-]{{0,61}}[{_L}0-9])?\.){{1,6}}"
    rf"([{_L}]{{2,12}})(?![{_L}0-9_@(\[=+-])(?!\.[{_L}0-9])"
    r"((?::\d{2,5})?/[^\s<>\"'`|\\^{}]*)?"
)
_WORDS_TOO = ("as", "do", "gn", "gs", "id", "is", "ms", "my", "st", "to")  # countries that are also words
_FILES_TOO = ("cc", "md", "ml", "ps", "py", "rs", "sh", "so")  # or what files are called
_SECOND = (
    *("com", "co", "net", "org", "gov", "edu", "ac", "or", "web", "sch", "go", "my", "desa", "ponpes", "biz"),
    *("gob", "gub", "mil", "in"),
)
_CALLED = re.compile(r"\b(?:web)?sites?\b|\bweb\b|domain|\bvisit|\burls?\b|\bwww\b|homepage|\bonline\b")
_CAMEL = re.compile(r"(?:[A-Z][a-z0-9]+){2,}")
_IN_CODE = ("self", "this", "cls", "operator", "makefile", "configure")
_IN_TITLES = ("Com", "Net", "Org")  # written so in names, and no words that begin a sentence
_TRAILING = ".,;:!?*_~'\""
_NAME = 2


def find_urls(text: str) -> Iterator[Finding]:
    """Find addresses, without the punctuation of the sentence around them."""
    for found in _SCHEME.finditer(text):
        end = found.start() + len(_trimmed(found[0]))
        yield Finding("url", found.start(), end)
    for found in _BARE.finditer(text):
        if _is_domain(found[0], found[1], words_before(text, found.start())):
            yield Finding("url", found.start(), found.start() + len(_trimmed(found[0])), 0.7)


def open_url(text: str) -> int:
    """Return where an address at the end of a text begins that may go on."""
    begin = begin_of_word(text)
    last = len(text.rstrip(_TRAILING + ")]"))
    found = (
        found for form in (_SCHEME, _BARE) for found in form.finditer(text, begin) if found.end() >= last
    )
    host = _HOST_OPEN.search(text, max(begin, len(text) - _LONGEST_HOST - 1))
    return min((item.start() for item in (*found, *([host] if host else ()))), default=len(text))


def _trimmed(address: str) -> str:
    address = address.rstrip(_TRAILING)
    for opened, closed in ("()", "[]"):
        while address.endswith(closed) and address.count(closed) > address.count(opened):
            address = address[:-1].rstrip(_TRAILING)
    return address


def _is_domain(address: str, ending: str, before: str) -> bool:
    """Whether it ends as domains do, and not as a sentence does that lacks a blank."""
    host = address.partition("/")[0]
    labels = host.split(".")
    name = labels[-2]
    if labels[0].lower() in _IN_CODE or len(name) < _NAME or name.isdigit():
        return False
    if ending in _WORDS_TOO or ending in _FILES_TOO:
        is_second = name in _SECOND and len(labels) > _NAME
        is_camel = ending in _WORDS_TOO and _CAMEL.fullmatch(name) is not None
        return is_second or is_camel or _CALLED.search(before) is not None
    is_title = ending in _IN_TITLES and host[0].isupper()
    return ending.lower() in _ENDINGS and (ending.islower() or host.isupper() or is_title)
