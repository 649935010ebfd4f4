"""E-mail addresses, URLs, and addresses of machines (IPv4, IPv6, MAC).

Versions, times and addresses that identify nobody are left alone.
"""

import ipaddress
import re
from collections.abc import Iterator

from recollect.guards.detection import Detection
from recollect.guards.pii.context_words import find_word_start, get_text_before
from recollect.guards.pii.kinds import REACH, DataKind

_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u052f"
_LOCAL = re.compile(rf"[{_LETTERS}0-9._%&'+\u2019-]+")
_DOMAIN = re.compile(
    rf"(?:[{_LETTERS}0-9](?:[{_LETTERS}0-9-]{{0,61}}[{_LETTERS}0-9])?\.){{1,9}}(?:xn--[a-z0-9-]{{2,24}}|[{_LETTERS}]{{2,24}})(?![{_LETTERS}0-9])"
)
_NUMERIC = re.compile(r"\[\d{1,3}(?:\.\d{1,3}){3}\]")
_DOMAIN_OPEN = re.compile(rf"[{_LETTERS}0-9.\[-]*\]?")
_MAX_DOMAIN = 120  # of a domain: with the rest it stays below what a stream may hold back
_LEADING = ".%&'-\u2019"  # at the start of an address more likely to belong to the text around it
_NOT_PEOPLE = ("git", "hg", "svn")


def _find_emails(text: str) -> Iterator[Detection]:
    """Find e-mail addresses; `git@host` is how one clones, not whom one writes to."""
    place = text.find("@")
    while place >= 0:
        found = _DOMAIN.match(text, place + 1, place + 1 + _MAX_DOMAIN) or _NUMERIC.match(text, place + 1)
        start = _find_local_start(text, place) if found else place
        if found and start < place and text[start:place].lower() not in _NOT_PEOPLE:
            yield Detection("email", start, found.end())
        place = text.find("@", place + 1)


def _open_email(text: str) -> int:
    """Return where an address at the end of a text may have begun, if its mark is there already."""
    place = text.rfind("@")
    if place < 0 or len(text) - place > _MAX_DOMAIN:
        return len(text)
    tail = _DOMAIN_OPEN.match(text, place + 1)
    return _find_local_start(text, place) if tail and tail.end() == len(text) else len(text)


def _find_local_start(text: str, place: int) -> int:
    """Return where the part before the mark begins: looked for backwards, so that no text costs more."""
    before = text[max(0, place - REACH) : place]
    found = _LOCAL.match(before[::-1])
    start = place - (found.end() if found else 0)
    while start < place and text[start] in _LEADING:
        start += 1
    return start


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
_MAX_HOST = 120  # a stream can wait for no longer one
_BEFORE_HOST = rf"(?<![{_L}0-9@._/\\:$-])(?<![=(]['\"])"
_HOST_OPEN = re.compile(rf"{_BEFORE_HOST}[{_L}0-9.-]{{1,{_MAX_HOST}}}\Z")
_BARE = re.compile(
    rf"{_BEFORE_HOST}(?![{_L}0-9.-]{{{_MAX_HOST + 1}}})"
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
_BARE_SCORE = 0.7
_MIN_LABELS = 2


def _find_urls(text: str) -> Iterator[Detection]:
    """Find URLs with a scheme or a "www.", without the punctuation of the sentence around them."""
    for found in _SCHEME.finditer(text):
        yield Detection("url", found.start(), found.start() + len(_trim_url(found[0])))


def _open_url(text: str) -> int:
    return _find_open_start(_SCHEME, text)


def _find_bare_urls(text: str) -> Iterator[Detection]:
    """Find URLs that begin with their host."""
    for found in _BARE.finditer(text):
        if _is_domain(found[0], found[1], get_text_before(text, found.start())):
            yield Detection("url", found.start(), found.start() + len(_trim_url(found[0])), _BARE_SCORE)


def _open_bare_url(text: str) -> int:
    host = _HOST_OPEN.search(text, max(find_word_start(text), len(text) - _MAX_HOST - 1))
    return min(_find_open_start(_BARE, text), host.start() if host else len(text))


def _find_open_start(form: re.Pattern[str], text: str) -> int:
    """Return where a URL in the last word begins that goes on to the end of a text, but for punctuation."""
    last = len(text.rstrip(_TRAILING + ")]"))
    found = form.finditer(text, find_word_start(text))
    return min((item.start() for item in found if item.end() >= last), default=len(text))


def _trim_url(address: str) -> str:
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
    if labels[0].lower() in _IN_CODE or len(name) < _MIN_LABELS or name.isdigit():
        return False
    if ending in _WORDS_TOO or ending in _FILES_TOO:
        is_second = name in _SECOND and len(labels) > _MIN_LABELS
        is_camel = ending in _WORDS_TOO and _CAMEL.fullmatch(name) is not None
        return is_second or is_camel or _CALLED.search(before) is not None
    is_title = ending in _IN_TITLES and host[0].isupper()
    return ending.lower() in _ENDINGS and (ending.islower() or host.isupper() or is_title)


_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_V4 = re.compile(rf"(?<![\d.])(?<![A-Za-z_]){_OCTET}(?:\.{_OCTET}){{3}}(?![\d])(?!\.\d)(?![A-Za-z_])")
_COLONS = re.compile(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{2,45}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3}|(?<=:[fF]{4}:)\d[\d.]{6,14})?"
    r"(?:%[0-9A-Za-z]{1,12})?(?![0-9A-Za-z:])(?!\.\d)"
)
_MAC = re.compile(
    r"(?<![0-9A-Za-z:-])(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}\1[0-9A-Fa-f]{2})?"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![0-9A-Za-z:-])"
)
_VERSION = re.compile(
    r"(?:version|\bver|release|\bv|firmware|\bbuild|section|chapter|clause|article|kapitel|rfc|abschnitt|driver)"
    r"[s.:#_=\"']*\s{0,2}(?:=\s?)?[\"']?\Z|§ ?\Z"
)
_SMALL = re.compile(r"([1-9])\.(?!\1\.\1\.\1\Z)\d\d?\.\d\d?\.\d\d?")  # more often a version than a host
_OPERATOR = re.compile(r"[=<>~!]=\s?[\"']?\Z")
_HOST = re.compile(
    r"\bips?\b|ipv?4|addr|adress|direcc|indirizz|host|server|\bfrom\b|\bvon\b|\bping|\bdns|gateway|subnet|log[gi]|node"
    r"|proxy|router|client|connect|\buser|visit|request|block|\bssh|\bport\b|://|@"
)
_MASK = re.compile(r"(?:0|127|255)\.")
_GROUPS = 8
_LONG_GROUP = re.compile(r"[0-9A-Fa-f]{3}")


def _find_ips(text: str) -> Iterator[Detection]:
    """Find addresses of hosts; loopback, network masks and "any host" are not somebody's."""
    for found in _V4.finditer(text):
        if not _MASK.match(found[0]) and not _is_version(text, found):
            yield Detection("ip", *found.span(), 0.4 if _is_likely_version(text, found) else 1.0)
    if ":" in text:
        yield from _find_v6(text)


def _find_macs(text: str) -> Iterator[Detection]:
    """Find addresses of network cards."""
    for found in _MAC.finditer(text):
        digits = re.sub(r"[^0-9a-f]", "", found[0].lower())
        if not digits.isalpha() and len(set(digits)) > 1:
            yield Detection("mac", *found.span())


def _find_v6(text: str) -> Iterator[Detection]:
    for found in _COLONS.finditer(text):
        address = found[0]
        if address.endswith(":") and not address.endswith("::"):
            address = address[:-1]
        if _is_v6(address):
            yield Detection("ip", found.start(), found.start() + len(address))


def _is_version(text: str, found: re.Match[str]) -> bool:
    if (
        text[found.start() - 1 : found.start()] == "/"
        and text[found.start() - 2 : found.start() - 1].isalpha()
    ):
        return found[0].endswith(".0")  # as in a browser's name
    return _VERSION.search(get_text_before(text, found.start(), 16)) is not None


def _is_likely_version(text: str, found: re.Match[str]) -> bool:
    """Whether it is more likely a version's, all small or compared, and no word says that it is a host's."""
    before = get_text_before(text, found.start())
    is_likely = _SMALL.fullmatch(found[0]) or _OPERATOR.search(before)
    return is_likely is not None and not _HOST.search(before)


def _is_v6(address: str) -> bool:
    if address.count(":") < 2 or not any(char.isdigit() for char in address):  # noqa: PLR2004
        return False
    if "::" not in address and address.count(":") != _GROUPS - 1 and "." not in address:
        return False
    groups = [group for group in address.split(":") if group]
    if len(groups) < 2 or not _LONG_GROUP.search(address):  # noqa: PLR2004 - x[1::2] is no address
        return False
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


EMAILS = DataKind("email", _find_emails, _open_email)
URLS = (
    DataKind("url", _find_urls, _open_url),
    DataKind("url", _find_bare_urls, _open_bare_url, best=_BARE_SCORE),
)
IPS = DataKind("ip", _find_ips)
MACS = DataKind("mac", _find_macs)
