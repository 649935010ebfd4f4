"""Random texts with every kind of personal data and secret in them, in every layout, made from a seed."""

import base64
import json
from collections.abc import Callable
from random import Random
from string import ascii_letters, ascii_uppercase, digits

from tests.guards.pii.texts import BENIGN, LONG_SECRETS, SAMPLES

_ALPHANUMERIC = ascii_letters + digits
_MONTHS = ("May", "Jan.", "Februar", "mars", "de mayo de", "сентября", "December")
_NAMES = ("ada", "j.r", "o'neil", "müller", "x_1", "info+tag", "Grace.Hopper")
_DOMAINS = ("example.org", "mail.example.co.uk", "xn--bcher-kva.example", "a-b.io", "[203.0.113.9]")
_NATIONAL = (
    *("AB 12 34 56 C", "AB123456C", "NHS 943 476 5919", "Steuer-ID 36 574 261 809", "2 55 08 14 168 025 38"),
    *("12345678Z", "X1234567L", "RSSMRA85T10A562S", "BSN 111222333", "85.07.30-033 28", "756.1234.5678.97"),
    *("811228-9874", "CPR 211062-5629", "15021951940", "131052-308T", "PESEL 44051401359", "390.533.447-05"),
    *("2341 2341 2346", "ALWPG5809L", "SIN 046 454 286", "11010519491231002X", "971013-9019902"),
    *("BOXW310820HNERXN09", "kimlik 10000000146", "1 85 05 2A 123 456 50"),
)
_IBANS = (
    *("DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19"),
    *("NO93 8601 1117 947", "IBAN FR14 2004 1010 0505 0001 3M02 607", "CH93-0076-2011-6238-5295-7"),
    *("account XX12 ABCDEFGHIJ1234", "iban DE89 3704 0044 0532 0130 01", "MT84MALT011000012345MTLCAST001S"),
)
_PHONES = (
    *("+1 415-555-0132 x12", "(415) 555-0132", "+49 (0)30 1234567", "06 12 34 56 78", "0151 496 0712"),
    *("+44 20 7946 0958", "415.555.0132", "phone 4155550132", "Tel.: 030/1234567", "+4915112345678"),
    *("922 74 512", "mobile 07700 900123 ext. 5", "電話 03-1234-5678", "٠٦ ١٢ ٣٤ ٥٦ ٧٨", "+1-800-555-0199"),
)
_HOSTS = (
    *("203.0.113.42", "2001:db8::8a2e:370:7334", "::ffff:203.0.113.7", "fe80::1ff:fe23:4567:890a%eth0"),
    *("00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "host 1.2.3.4", "2001:db8:1:2:3:4:5:6"),
)
_BIRTH_LABELS = (
    *("My date of birth is", "Date of birth:", "DOB", "d.o.b.", "She was born on", "Geburtsdatum:", "née le"),
    *(
        "data di nascita",
        "birthday",
        "дата рождения",
        "生年月日",
        "date_of_birth",
        "Born",
        "fecha de nacimiento",
    ),
)
_GAPS = (
    " ",
    " ",
    " ",
    ": ",
    "        | ",
    " | ",
    " ........ ",
    "\t",
    " __________ ",
    ' "',
    "=",
    "  \u2013  ",
)
_SECRET_LABELS = (
    *("password: ", "The password is ", "api_key=", "SECRET_KEY = ", "token: ", "Bearer ", "pin is ", "pwd="),
    *(
        '"clientSecret": "',
        "contraseña: ",
        "密码\uff1a",
        "otp: ",
        "access key is ",
        "Authorization: Basic ",
    ),
)
_PREFIXES = (
    *("ghp_", "github_pat_", "glpat-", "xoxb-", "sk_live_", "whsec_", "sk-proj-", "sk-", "AIza", "ya29."),
    *("npm_", "pypi-", "hf_", "SG.", "AKIA", "shpat_", "https://hooks.slack.com/services/", "eyJ", "dop_v1_"),
)
_FILLERS = (
    *("the harbour office opens", "at noon", "of 5 boats", "in 1887", "and so on.", "I think,", "-", "naïve"),
    *(
        "it was **bold**",
        "x = y[1::2]",
        "a_long_snake_name",
        "see #12",
        "50 %",
        "U.S.",
        "US",
        "call me",
        "no.",
    ),
    *(
        "\\n",
        "\\",
        "→",
        "\u200b",
        "\u2028",
        "12",
        "34-",
        "(",
        ")",
        "order",
        "invoice 2024-000123",
        "born",
        "@",
    ),
)
_JOINTS = (" ", " ", " ", " ", "\n", "\n", ", ", "\t", "; ", "", " and ", "\n\n", " | ", "\\n", "\r\n", ".")

Maker = Callable[[Random], str]


def make_text(chance: Random) -> str:
    """Return a text of a few findings, halves of findings and ordinary words, in some layout."""
    parts = [_make_part(chance) for _ in range(chance.randint(1, 5))]
    text = "".join(part + chance.choice(_JOINTS) for part in parts) or "."
    return (text if chance.random() < 0.8 else _damage(chance, text)) or "."


def _make_part(chance: Random) -> str:
    if chance.random() < 0.25:
        return " ".join(chance.choices(_FILLERS, k=chance.randint(1, 8)))
    if chance.random() < 0.1:
        return chance.choice(BENIGN)
    found = make_finding(chance)
    if chance.random() < 0.1:
        found = found[: chance.randint(1, len(found))]
    return _lay_out(chance, found)


def make_finding(chance: Random) -> str:
    """Return something of a random kind that a guard finds, or nearly so."""
    return chance.choice(_MAKERS)(chance)


def _lay_out(chance: Random, found: str) -> str:
    name = chance.choice(
        ("value", "phone", "password", "e-mail", "Date of birth", "card number", "id", "note")
    )
    pad = " " * chance.randint(0, 12)
    return chance.choice(
        (
            found,
            f"Well, {found}, they say.",
            f"My {name} is {found}.",
            f"- {name}: {found}",
            f"1. {found}",
            f"| {name}{pad} | {found}{pad} | 12 |",
            f"{name} {'.' * len(pad)} {found}",
            json.dumps({name: found, "n": 5}),
            json.dumps({"outer": json.dumps({name: found})}),
            json.dumps([{name: found}], indent=2),
            f"{name.replace(' ', '_')} = '{found}'  # {found}",
            f"({found})",
            f"“{found}”",
            f"{name},{found},x",
            f"> {found}",
            f'<a href="{found}">{found}</a>',
        )
    )


def _damage(chance: Random, text: str) -> str:
    """Take something out, put something in or say something twice."""
    place = chance.randrange(len(text))
    end = min(len(text), place + chance.randint(1, 6))
    return chance.choice(
        (
            text[:place] + text[end:],
            text[:place] + chance.choice(_JOINTS) + text[place:],
            text[:end] + text[place:],
        )
    )


def _make_email(chance: Random) -> str:
    return f"{chance.choice(_NAMES)}@{chance.choice(_DOMAINS)}"


def _make_card(chance: Random) -> str:
    number = chance.choice(("4", "51", "37", "6011", "35", "62")) + _pick(chance, digits, 17)
    number = number[: chance.choice((15, 16, 16, 16))]
    number = next(n for n in (number[:-1] + last for last in digits) if _is_luhn(n))
    mark = chance.choice(("", " ", "-", ".", "\u00a0", "\n"))
    return mark.join(number[place : place + 4] for place in range(0, len(number), 4))


def _is_luhn(number: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (sum(doubled) + sum(map(int, number[-1::-2]))) % 10 == 0


def _make_ssn(chance: Random) -> str:
    mark = chance.choice(("-", "-", " ", ".", ""))
    label = chance.choice(("", "SSN ", "social security number: "))
    return label + mark.join((f"{chance.randint(1, 899):03}", f"{chance.randint(1, 99):02}", "6789"))


def _make_birth_date(chance: Random) -> str:
    year, day, month = chance.randint(1920, 2015), chance.randint(1, 28), chance.randint(1, 12)
    name = chance.choice(_MONTHS)
    date = chance.choice(
        (
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{year}-{month:02}-{day:02}",
            f"{day:02}/{month:02}/{year}",
            f"{day}.{month}.{year}",
            f"{year}年{month}月{day}日",
            f"{day}th of {name} {year}",
            f"{year}{month:02}{day:02}",
        )
    )
    return chance.choice(_BIRTH_LABELS) + chance.choice(_GAPS) + date


def _make_labelled(chance: Random) -> str:
    symbols = chance.choice((_ALPHANUMERIC, _ALPHANUMERIC + "!#$%&*+/=?._~-", ascii_letters))
    size = chance.choice((4, 8, 8, 12, 20, 62, 63, 64, 100, 127, 128, 129, 199, 200, 201, 256, 300, 700))
    labelled = chance.choice(_SECRET_LABELS) + _pick(chance, symbols, size)
    if chance.random() < 0.8:
        return labelled
    return labelled + chance.choice((".", "-", "/", "", ",")) + chance.choice(_SECRET_LABELS) + "hunter22"


def _make_token(chance: Random) -> str:
    prefix = chance.choice(_PREFIXES)
    letters = ascii_uppercase + digits if prefix == "AKIA" else _ALPHANUMERIC
    size = chance.choice((16, 16, 20, 24, 32, 36, 40, 64, 120, 128, 180, 200, 230, 256, 260, 400, 900))
    token = prefix + _pick(chance, letters, 16 if prefix == "AKIA" else size)
    if prefix in ("eyJ", "SG."):
        token += "." + _pick(chance, _ALPHANUMERIC, chance.choice((16, 43, 300)))
    return token + ("." + _pick(chance, _ALPHANUMERIC, 43) if prefix == "eyJ" else "")


def _make_url(chance: Random) -> str:
    secret = chance.choice(("", "app:s3cr3t@", f"u:{_pick(chance, _ALPHANUMERIC, 40)}@"))
    path = chance.choice(("", "/a?b=1", "/" + "Zx9/" * chance.choice((3, 40, 60, 90))))
    scheme = chance.choice(("https://", "postgres://", "", "www.", "ftp://"))
    return f"{scheme}{secret}{chance.choice(_DOMAINS[:2])}{path}"


def _make_private_key(chance: Random) -> str:
    code = base64.b64encode(chance.randbytes(chance.choice((12, 48, 120, 300, 600, 1200, 1700)))).decode()
    width = chance.choice((64, 64, 64, 76, 70, 48))
    lines = [code[place : place + width] for place in range(0, len(code), width)]
    kind = chance.choice(("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"))
    head = chance.choice(
        (
            [],
            [],
            ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{_pick(chance, '0123456789ABCDEF', 32)}", ""],
            ["Version: GnuPG v2.0.22 (GNU/Linux)", ""],
            [*["Comment: a key that is not to be told to anybody"] * chance.randint(1, 12), ""],
        )
    )
    lines = [f"-----BEGIN {kind}-----", *head, *lines, f"-----END {kind}-----"]
    if chance.random() < 0.1:
        del lines[-1]
    return chance.choice(("\n", "\n", "\n", "\r\n", "\\n", " ", " ", "  ", "\n    ", "\t")).join(lines)


def _pick(chance: Random, characters: str, count: int) -> str:
    return "".join(chance.choices(characters, k=count))


def _choose(values: tuple[str, ...]) -> Maker:
    return lambda chance: chance.choice(values)


_MAKERS: tuple[Maker, ...] = (
    *(_make_email, _make_card, _make_ssn, _make_birth_date, _make_birth_date, _make_labelled, _make_token),
    *(_make_url, _make_private_key, _choose(_NATIONAL), _choose(_IBANS), _choose(_PHONES), _choose(_HOSTS)),
    *(
        _choose(tuple(sample.text for sample in SAMPLES)),
        _choose(tuple(text for text, _ in LONG_SECRETS.values())),
    ),
    lambda chance: f"B-{_pick(chance, digits, 4)}-X",
)
