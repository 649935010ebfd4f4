"""Texts with labelled personal data, and how well findings agree with the labels.

A finding is right where a label of the same type overlaps with it anywhere. Types that the file does not
label are not judged: whether a text holds a secret is unknown where nobody marked secrets.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.support.labelled import read_rows

from recollect.guards.detection import Detection
from recollect.guards.pii.finder import TYPES

_FORM = "text and spans, each with start, end and type, places in the text"
_NAMES = {
    # What else these types are called in labelled sets; an identity number counts as the US's does.
    **dict.fromkeys(("domain", "domain_name", "url_domain", "website", "web_address"), "url"),
    **dict.fromkeys(("email_address", "e_mail", "mail"), "email"),
    **dict.fromkeys(("phone_number", "phonenumber", "telephone", "telephone_number"), "phone"),
    **dict.fromkeys(("credit_card", "credit_card_number", "creditcard", "card_number"), "card"),
    **dict.fromkeys(("us_ssn", "social_security_number", "national_id"), "ssn"),
    **dict.fromkeys(("iban_code", "iban_number"), "iban"),
    **dict.fromkeys(("ip_address", "ipv4", "ipv6"), "ip"),
    **dict.fromkeys(("mac_address",), "mac"),
    **dict.fromkeys(("date_of_birth",), "dob"),
    **dict.fromkeys(("password", "api_key"), "secret"),
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and where something is in it: type, start and end."""

    text: str
    spans: list[tuple[str, int, int]]


@dataclass(slots=True)
class Count:
    """How often a type was found rightly, found wrongly and not found."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def add(self, other: "Count") -> None:
        """Count others too."""
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed

    def figures(self) -> dict[str, object]:
        """Return precision, recall and F1; None where there was nothing to find or nothing was found."""
        found, labelled = self.right + self.wrong, self.right + self.missed
        both = found + labelled
        return {
            "precision": round(self.right / found, 4) if found else None,
            "recall": round(self.right / labelled, 4) if labelled else None,
            "f1": round(2 * self.right / both, 4) if both else None,
            "labelled": labelled,
            "found": found,
        }


def count(rows: Sequence[Labelled], found: Sequence[Sequence[Detection]]) -> dict[str, Count]:
    """Compare labels with findings, by type."""
    counts = {kind: Count() for row in rows for kind, _, _ in row.spans if kind in TYPES}
    for row, findings in zip(rows, found, strict=True):
        named = [(_NAMES.get(item.type, item.type), item.start, item.end) for item in findings]
        for kind, each in counts.items():
            labels = [span for span in row.spans if span[0] == kind]
            ours = [span for span in named if span[0] == kind]
            hits = sum(any(_overlap(label, one) for one in ours) for label in labels)
            each.right += hits
            each.missed += len(labels) - hits
            each.wrong += sum(not any(_overlap(one, label) for label in labels) for one in ours)
    return counts


def read_labelled(path: Path) -> list[Labelled]:
    """Read labelled texts; a line that is none is an error that names it."""
    return read_rows(path, "pii", _labelled, _FORM)


def _labelled(row: dict[str, Any]) -> Labelled:
    text = row["text"]
    if not isinstance(text, str):
        raise TypeError
    spans = cast("list[dict[str, Any]]", row["spans"])
    places = [(_type_of(span), int(span["start"]), int(span["end"])) for span in spans]
    if any(not 0 <= start <= min(end, len(text)) for _, start, end in places):
        raise ValueError
    return Labelled(text, [place for place in places if place[1] < place[2]])


def _type_of(span: dict[str, Any]) -> str:
    name = re.sub(r"[\W_]+", "_", str(span["type"]).strip().lower())
    return _NAMES.get(name, name)


def _overlap(left: tuple[str, int, int], right: tuple[str, int, int]) -> bool:
    return left[1] < right[2] and right[1] < left[2]
