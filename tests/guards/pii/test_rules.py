"""What the rules find and leave alone: floors on a corpus of our own, and laws."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guards.pii.texts import BENIGN
from tests.support.pii_counts import count, read_labelled
from tests.support.profiles import examples
from tests.support.strategies import cleaned

from recollect import PIIDetector
from recollect.guards.detection import Detection
from recollect.guards.pii.finder import TYPES, PIIFinder
from recollect.guards.pii.kinds import merge_detections

CORPUS = Path(__file__).resolve().parents[2] / "data" / "pii.jsonl"
FLOOR = 0.99


def test_precision_and_recall_of_each_kind_stay_above_their_floors() -> None:
    """On our own corpus, in more than six languages, with attacks and look-alikes."""
    rows = read_labelled(CORPUS)
    finder = PIIFinder(TYPES)
    counts = count(rows, [finder.find(row.text) for row in rows])
    assert set(counts) == set(TYPES) - {"national_id"}
    for kind, each in counts.items():
        figures = each.figures()
        assert float(str(figures["precision"])) >= FLOOR, (kind, figures)
        assert float(str(figures["recall"])) >= FLOOR, (kind, figures)


@pytest.mark.anyio
@pytest.mark.parametrize("text", BENIGN)
async def test_ordinary_text_is_untouched(text: str) -> None:
    """Prose, code, logs, prices, dates, ISBNs, versions, colours, Markdown, ids and blobs stay."""
    assert await cleaned(PIIDetector(), text) == text


@pytest.mark.anyio
@given(st.text(st.characters(exclude_characters="@\0", exclude_categories=("Cs", "Nd"))))
@examples(5)
async def test_text_without_digits_and_marks_is_never_changed(text: str) -> None:
    """Nothing that is looked for by default can be there."""
    assert await cleaned(PIIDetector(), text) == text


@given(
    st.lists(
        st.sampled_from(
            ("password", ": ", "is ", "Born", " on May", "BEGIN", "-", "AB ", "x::y", "a.b", " ")
        ),
        max_size=12,
    ).map("".join)
)
@examples(3)
def test_words_that_name_something_are_never_found_without_it(text: str) -> None:
    """Labels, months and marks alone are ordinary text."""
    assert PIIFinder().find(text) == []


@given(st.text(max_size=200))
@examples(3)
def test_detections_lie_in_the_text_in_order_and_apart(text: str) -> None:
    """For any text, of all kinds."""
    place = 0
    for found in PIIFinder(TYPES).find(text):
        assert place <= found.start < found.end <= len(text)
        place = found.end


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("127.0.0.1 0.0.0.0 255.255.255.0 ::1 fe80:: 1::2", []),
        ("v10.20.30.40 or version: 10.20.30.40 or Chrome/120.0.0.0", []),
        ("localhost/10.20.30.40", ["ip"]),
        ("ip 2001:db8::1: refused, ::ffff:203.0.113.9 too", ["ip", "ip"]),
        ("aa:bb:cc:dd:ee:ff 00:00:00:00:00:00", []),
        ("000-12-3456 666-12-3456 123-00-4567 123-45-0000", []),
        ("4111 1111 1111 1112, 1234567890123456, 4006381333931", []),
        ("card 4111-1111-11-111111", []),
        ("DE89 3704 0044 0532 0130 01 and XX89370400440532013000", []),
        ("DE893704004405320130001", []),
        ("DE89 3704 0044 0532 0130 00 12", ["iban"]),
        ("GB64TDOT7467766165012", ["iban"]),
        ("tel 12345", []),
        ("phone (12) 34", []),
        ("+999 1234567890", []),
        ("$5551234567 and € 415 555 0132", []),
        ("+49 (0)30 1234567 +1 415 555 0132", ["phone", "phone"]),
        ("x1 415-555-0132 5pm", ["phone"]),
        ("2024-01-05 415-555-0132 2024-01-06", ["phone"]),
        (
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 415-555-0132 +49 30 1234567",
            ["phone", "phone"],
        ),
        ("a_4155550132_b", []),
        ("git@host.example.org", []),
        ("@example.org", []),
        ("x@[203.0.113.9]", ["email"]),
        ("token: abcdefgh, token: 12345678, token: a1b2c3d4", ["secret"]),
        ("password: ****, password: ${PASS1}, password: get1(x)", ["secret"]),
        ("Bearer abcdefghijklmnop", []),
        ("hooks.slack.com/services/T0/B0/abcdefghijkl0123", ["secret"]),
        ("-----BEGIN PUBLIC KEY-----\nMIIE1234\n-----END PUBLIC KEY-----", []),
        ("-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE1234 and then", ["secret"]),
        ("pay 4111111111111111. 5105 1051 0510 5100 12", ["card", "card"]),
        ("number 1234 5678 9012 3456 and 5678 9012 3456 1234 of a series", []),
        ("978-0-596-52068-7", []),
        ("part A-400-123-4567, then 415-555-0132", ["phone"]),
        ("part A-400-123-4567 415-555-0132", ["phone"]),
        ("Tel-415-555-0132", ["phone"]),
        ("visa-4111-1111-1111-1111", ["card"]),
        ("4000000000006 at the till, then card 4000000000006", ["card"]),
        ("card no. 1234 5678 9012 3456; discard 1234 5678 9012 3456", ["card"]),
        ("card 4111 1111 1111 1112 1234", []),
        ("iban DE89 3704 0044 0532 0130 01, then DE89 3704 0044 0532 0130 01", ["iban"]),
        ("account ZZ63ABCD0123456789", ["iban"]),
        ("serial ZZ63ABCD0123456789", []),
        ("order 0151 496 0712, order of Ada Byron 0151 496 0712", ["phone"]),
        ("order 48213: Ada 0151 496 0712", ["phone"]),
        ("your order at 0151 496 0712", []),
        ("call about the order at 0151 496 0712", ["phone"]),
        ("chiffon 245 255 250", []),
        ("the lemon tree that grows in the harbour, chiffon 4155550132", []),
        ("Boston 02199-0042, tel 02199-0042", ["phone"]),
        ("Smith (2019) 12345, Yerevan (10) 541234", ["phone"]),
        ("(tel 415 5550132 (10 times))", ["phone"]),
        ("call\nfor 5033164 or 4155550132", ["phone"]),
        ("call 1998-2007, call 3.10.0 - 3.10.8, call 1000000, call 0.5772156649", []),
        ("contact us on CVE-2020-5260, or on tel-2020-5260", ["phone"]),
        ("see #1172785, my # is 1172785", ["phone"]),
        ("0123456789 or 9876543210", []),
        ("Did 922 74 512 ring, or 41-50-78-03, or 6155 2626?", ["phone", "phone", "phone"]),
        ("She gave me 612 345 678, he 4155550132.", ["phone"]),
        ("He paid 612 345 678 for it, or 12 15 18 22, and the grey is 104 34 139 then.", []),
        ("GET /index.html 200 1298, data <74 65 73 74 0a>, from 2010 2020, pages 2360-2363", []),
        ("x = 922 74 512", []),
        ("922 74 512 is mine", ["phone"]),
        ("6155 2626 rows", []),
        ("It costs 500-1500 dollars, for 200-1000 people, in 512 1024 byte blocks.", []),
        ("Ask 555-0199 or 412-7730, or 1500-500.", ["phone", "phone"]),
        ("pwd=/home/user1, secret: /run/secrets/db1, token: ../keys/k1, key=C:\\keys\\k1", []),
        ("token=/aB3/dEf45Gh6x", ["secret"]),
        ("card(4111 1111 1111 1111) f(4111111111111111) pay(5105-1051-0510-5100)", ["card"] * 3),
        ("ssn(123-45-6789), office(415) 555-0132, Ada(06 12 34 56 78)", ["ssn", "phone", "phone"]),
        ("Tel(0612345678) or Mobile(+49 170 1234567)", ["phone", "phone"]),
        ("IPv4Address(3221225985), text = format(123456789), sleep(4155550132)", []),
        ("userPassword: hunter22x, PGPASSWORD=hunter22x, MyAPIKey=abc123defg", ["secret"] * 3),
        ("compassword: hunter22x, monkey=abc123defg", []),
        ("cvv: 123, CVC is 1234, cvv: abc", ["secret", "secret"]),
        ("x==2.31.0.1, x==23.31.0.1, Git 1.7.12.1", []),
        ("ip==23.31.0.1, node 1.7.12.1", ["ip", "ip"]),
        ("Phone:\\n030 901820\\nFax", ["phone"]),
        ("\u96fb\u8a71\uff1a\uff10\uff13\uff0d\uff11\uff12\uff13\uff14\uff0d5678", ["phone"]),
        ("card " + "\u0664\u0661\u0661\u0661" + 3 * "\u0661\u0661\u0661\u0661", ["card"]),
        ("\u5bc6\u7801\uff1aabc12345\uff0c\u8c22\u8c22", ["secret"]),
        ("\u0633\u0646\u0629 \u0662\u0660\u0662\u0664, \uff11\uff12\uff18\u5143", []),
        ("to\\nada@example.org\\tor 10117 Berlin\\n030 901820", ["email", "phone"]),
    ],
)
def test_rules_tell_alike_things_apart(text: str, kinds: list[str]) -> None:
    """Single cases that a corpus would hide."""
    assert [found.type for found in PIIFinder().find(text)] == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("at HarbourLights.Com, Light-House.technology or quay.berlin", ["url", "url", "url"]),
        ("It is done.Com on, go home.Net result: none.", []),
        ("see example.com.", ["url"]),
        ("see (www.example.com/a(b)).", ["url"]),
        ("https://a:b1@example.com/x", ["url"]),
        ("README.md foo.py end.It was Node.js a.b self.id( e.g. i.e. 3.de", []),
        ("ada@example.com", ["email"]),
        ("ada.me+news@example.com, ada@www.example.com", ["email", "email"]),
        ("user.id, account.user.id, toko.co.id, пример.рф, bücher.de", ["url", "url", "url"]),
        ("self.me, this.is, operator.lt, Makefile.in", []),
        ("main.rs, README.md, run.sh, to.do", []),
        ("visit harbour.rs, shop.com.my or LightHouse.is", ["url", "url", "url"]),
    ],
)
def test_addresses_on_the_web_are_found_when_they_are_asked_for(text: str, kinds: list[str]) -> None:
    """They are ordinary text otherwise."""
    assert [found.type for found in PIIFinder(TYPES).find(text)] == kinds


def test_overlapping_detections_are_one_of_the_better_kind() -> None:
    """Nothing of either is left over."""
    found = merge_detections([Detection("phone", 5, 20), Detection("iban", 0, 10), Detection("own", 30, 31)])
    assert found == [Detection("iban", 0, 20), Detection("own", 30, 31)]
