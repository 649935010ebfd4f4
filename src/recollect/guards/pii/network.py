"""Addresses of machines: IPv4, IPv6 and MAC; not versions, times, or what identifies nobody."""

import ipaddress
import re
from collections.abc import Iterator

from recollect.guards.pii.context_words import words_before
from recollect.guards.pii.finding import Finding

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


def find_ips(text: str) -> Iterator[Finding]:
    """Find addresses of hosts; loopback, network masks and "any host" are not somebody's."""
    for found in _V4.finditer(text):
        if not _MASK.match(found[0]) and not _is_version(text, found):
            yield Finding("ip", *found.span(), 0.4 if _may_be_version(text, found) else 1.0)
    if ":" in text:
        yield from _find_v6(text)


def find_macs(text: str) -> Iterator[Finding]:
    """Find addresses of network cards."""
    for found in _MAC.finditer(text):
        digits = re.sub(r"[^0-9a-f]", "", found[0].lower())
        if not digits.isalpha() and len(set(digits)) > 1:
            yield Finding("mac", *found.span())


def _find_v6(text: str) -> Iterator[Finding]:
    for found in _COLONS.finditer(text):
        address = found[0]
        if address.endswith(":") and not address.endswith("::"):
            address = address[:-1]
        if _is_v6(address):
            yield Finding("ip", found.start(), found.start() + len(address))


def _is_version(text: str, found: re.Match[str]) -> bool:
    if (
        text[found.start() - 1 : found.start()] == "/"
        and text[found.start() - 2 : found.start() - 1].isalpha()
    ):
        return found[0].endswith(".0")  # as in a browser's name
    return _VERSION.search(words_before(text, found.start(), 16)) is not None


def _may_be_version(text: str, found: re.Match[str]) -> bool:
    """Whether it is more likely a version's, all small or compared, and no word says that it is a host's."""
    before = words_before(text, found.start())
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
