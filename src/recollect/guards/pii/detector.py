"""Personal data and secrets: redacted, blocked, left out or only reported, in prompts, tools and answers."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, cast, get_args

from recollect.errors import InvalidArgumentError, RecollectError
from recollect.guards.detection import (
    Detection,
    OnDetection,
    Rows,
    check_callback,
    list_types,
    report_detections,
)
from recollect.guards.holdback import REDACTED, HoldBack, Span
from recollect.guards.pii.finder import DEFAULT_TYPES, TYPES, PIIFinder
from recollect.guards.pii.kinds import merge_detections
from recollect.guards.pii.numbers import REGIONS
from recollect.guards.pii.presidio import Engine
from recollect.guards.span_guard import SpanGuard
from recollect.guards.stream_guard import TextStream
from recollect.pipeline.context import RunContext
from recollect.pipeline.processor import is_changed
from recollect.validation import check_choice, check_choices, check_share

Strategy: TypeAlias = Literal["redact", "block", "warn", "filter"]
"""What happens to what is found."""

Method: TypeAlias = Literal["mask", "placeholder", "hash", "remove"]
"""What is written in its place."""

BATCH = 24
"""How many characters of a stream are read together; the chunks of models are mostly shorter."""

_LONG = 100_000
_MARGIN = 56  # what waits beside a match: a batch, and punctuation that may still belong to it
_MASKED_EMAIL = "***@***.***"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_HASH_SIZE = 16
_HEX_TO_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")


class PIIDetector(SpanGuard):
    """Finds e-mail addresses, numbers of phones, cards, accounts and people, machines, and secrets.

    `redact` writes something in the place of each detection: a `mask`, a `placeholder` such as `[EMAIL]`, a
    keyed `hash` (the same for the same thing, under this key) or nothing (`remove`). `block` stops the run,
    `warn` changes nothing, `filter` leaves out the whole text in which something is found. No text is sent
    anywhere.
    """

    id = "pii"
    batch = BATCH

    def __init__(  # noqa: PLR0913 - all by keyword, each an option of its own
        self,
        strategy: Strategy = "redact",
        *,
        method: Method = "mask",
        types: Collection[str] | None = None,
        regions: Collection[str] = REGIONS,
        allow: Collection[str | re.Pattern[str]] = (),
        patterns: Mapping[str, str | re.Pattern[str]] | None = None,
        threshold: float = 0.5,
        key: str | bytes | None = None,
        engine: Engine | None = None,
        on_detection: OnDetection | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        """Check the options.

        `types` are those to look for, by default all but URLs; `regions` are countries whose national numbers
        count. `allow` holds texts that may stay, or patterns for whole detections of at most 200 characters;
        `patterns` more kinds by name. Without `key` the hashes of this detector compare only with each other.
        An `engine` finds what patterns cannot, such as names; text then waits for the end of its message.
        """
        self.id = id or self.id
        self._strategy = check_choice(strategy, "strategy", get_args(Strategy))
        self._method = check_choice(method, "method", get_args(Method))
        # Only secrets are longer than may be held back.
        self.replacement = {"mask": REDACTED, "remove": ""}.get(method, "[SECRET]")
        self._allowed = _check_allow(allow)
        longest = max((len(item) for item in self._allowed if isinstance(item, str)), default=0)
        self.holdback_limit = max(self.holdback_limit, longest + _MARGIN)
        self._key = _check_key(key)
        self._engine = _check_engine(engine)
        self._on_detection = check_callback(on_detection)
        self._finder = PIIFinder(
            check_choices(DEFAULT_TYPES if types is None else types, "types", TYPES),
            regions=check_choices(regions, "regions", REGIONS),
            patterns=_check_patterns({} if patterns is None else patterns),
            threshold=check_share(threshold, "threshold"),
        )
        if not (self._finder.has_kinds or engine is not None):
            raise InvalidArgumentError("types", f"must name at least one of {', '.join(TYPES)}")

    def find(self, text: str, start: int, ctx: RunContext) -> list[Span]:
        """Return what is to be written where; what is only reported is left alone."""
        if self._strategy == "warn":
            return []
        found = self._detect(text, start)
        ctx.state["found"] = (text, start, found)  # the same text is reported next
        if self._strategy == "filter":
            return [Span(0, len(text), "")] if found else []
        return self._make_spans(found, text)

    def find_in_pieces(self, text: str, start: int, ctx: RunContext) -> Iterator[list[Span]]:
        """Yield what `find` returns, of a long text a piece at a time."""
        if self._strategy in ("warn", "filter") or is_changed(self, "find", PIIDetector):
            yield self.find(text, start, ctx)
            return
        known = _new_list(text)
        for found in self._detect_in_pieces(text, start):
            known.extend(found)
            yield self._make_spans(found, text)
        ctx.state["found"] = (text, start, known)

    def _make_spans(self, found: Iterable[Detection], text: str) -> list[Span]:
        return [Span(item.start, item.end, self._make_replacement(item, text)) for item in found]

    def report(self, text: str, start: int, end: int, ctx: RunContext) -> None:
        """Report what was found in a segment of text, and stop the run if that is the strategy."""
        known: tuple[str, int, Sequence[Detection]] = ctx.state.pop("found", ("", 0, []))
        found = known[2] if known[:2] == (text, start) else self._detect(text, start)
        detections = _new_list(text)
        detections.extend(
            Detection(item.type, max(item.start - start, 0), item.end - start, item.score)
            for item in found
            if item.end <= end
        )
        if not detections:
            return
        report_detections(detections, ctx, action=self._strategy, on_detection=self._on_detection)
        if self._strategy == "block":
            kinds = list_types(detections)
            metadata: dict[str, object] = {"types": kinds, "count": len(detections)}
            ctx.abort(f"personal data found: {', '.join(kinds)}", metadata=metadata)

    def open_from(self, text: str) -> int:
        """Return where something may begin that is not finished at the end of the text."""
        place = self._finder.open_from(text)
        return self._release_reported(place, text) if self._strategy == "warn" else place

    def new_stream(self, ctx: RunContext) -> TextStream:
        """Make a stream that skips ordinary words; a subclass that finds more is asked about all text."""
        is_own = any(is_changed(self, hook, PIIDetector) for hook in ("find", "open_from", "report"))
        if is_own or self.holds_whole_text:
            return super().new_stream(ctx)
        skip_to = self._skip_reported if self._strategy == "warn" else self._finder.skip_to
        return HoldBack(self, ctx, skip_to=skip_to)

    def _skip_reported(self, text: str, start: int) -> int:  # noqa: ARG002 - the form of `skip_to`
        # What is only reported is released in parts: its end may stand after `start`.
        place = self._finder.skip_to(text, 0)
        return place if place < 0 else self._release_reported(place, text)

    def _release_reported(self, place: int, text: str) -> int:
        """Return a place from which on no more waits than may: what is only reported is never swallowed."""
        return max(place, len(text) - (self.holdback_limit - self.batch))

    @property
    def holds_whole_text(self) -> bool:
        """Whether a whole message must be seen: to leave it out, or because the engine needs sentences."""
        return self._strategy == "filter" or self._engine is not None

    def _detect(self, text: str, start: int) -> Sequence[Detection]:
        found = _new_list(text)
        for piece in self._detect_in_pieces(text, start):
            found.extend(piece)
        return found

    def _detect_in_pieces(self, text: str, start: int) -> Iterator[list[Detection]]:
        pieces = self._finder.find_in_pieces(text, start)
        if self._engine is not None:
            found = [item for piece in pieces for item in piece]
            pieces = iter([merge_detections([*found, *_ask_engine(self._engine, text)])])
        for piece in pieces:
            yield [
                item
                for item in piece
                if item.end > start and not self._is_allowed(text[item.start : item.end])
            ]

    def _is_allowed(self, match: str) -> bool:
        is_short = len(match) <= self.holdback_limit - _MARGIN
        return any(
            match.casefold() == item if isinstance(item, str) else is_short and item.fullmatch(match)
            for item in self._allowed
        )

    def _make_replacement(self, found: Detection, text: str) -> str:
        match self._method:
            case "mask":
                return _MASKED_EMAIL if found.type == "email" else REDACTED
            case "placeholder":
                return f"[{found.type.upper()}]"
            case "remove":
                return ""
            case _:
                digest = self._compute_digest(found.type, text[found.start : found.end])
                return f"[{found.type.upper()}:{digest}]"

    def _compute_digest(self, kind: str, match: str) -> str:
        """Return a keyed digest in letters, so that no rule finds a number in it."""
        plain = match if kind == "secret" else match.casefold()
        if kind not in ("email", "secret", "url"):
            plain = _NOT_ALPHANUMERIC.sub("", plain)
        digest = hmac.new(self._key, f"{kind}:{plain}".encode(), hashlib.sha256).hexdigest()
        return digest[:_HASH_SIZE].translate(_HEX_TO_LETTERS)


def _new_list(text: str) -> list[Detection] | Rows[Detection]:
    """Return an empty list for what is found in a text: in a long one there may be very much."""
    return [] if len(text) <= _LONG else Rows(Detection)


def _ask_engine(engine: Engine, text: str) -> list[Detection]:
    """Ask an engine; its error may quote the text, so ours names only the type of it."""
    try:
        return [Detection(*item) for item in engine.find(text)]
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing may pass unseen
        failure = f"{type(engine).__name__} could not look for personal data: {type(error).__name__}"
    raise RecollectError(failure)


def _check_allow(allow: object) -> list[str | re.Pattern[str]]:
    if isinstance(allow, str) or not isinstance(allow, Collection):
        raise InvalidArgumentError(
            "allow", f"must be a list of texts or patterns, not {type(allow).__name__}"
        )
    items = list(cast("Collection[object]", allow))
    for item in items:
        if not isinstance(item, str | re.Pattern):
            raise InvalidArgumentError("allow", f"must hold texts or patterns, not {type(item).__name__}")
    checked = cast("list[str | re.Pattern[str]]", items)
    return [item.casefold() if isinstance(item, str) else item for item in checked]


def _check_key(key: object) -> bytes:
    if key is None:
        return secrets.token_bytes(32)
    if not isinstance(key, str | bytes) or not key:
        raise InvalidArgumentError("key", "must be a text or bytes, and not empty")
    return key.encode() if isinstance(key, str) else key


def _check_engine(engine: Engine | None) -> Engine | None:
    # A text has a `find` of its own.
    if engine is not None and (isinstance(engine, str) or not callable(getattr(engine, "find", None))):
        raise InvalidArgumentError(
            "engine", f"must be an object with `find(text)`, not {type(engine).__name__}"
        )
    return engine


def _check_patterns(patterns: object) -> dict[str, re.Pattern[str]]:
    if not isinstance(patterns, Mapping):
        raise InvalidArgumentError("patterns", f"must be a dict of patterns, not {type(patterns).__name__}")
    checked: dict[str, re.Pattern[str]] = {}
    for name, pattern in cast("Mapping[object, object]", patterns).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in TYPES:
            raise InvalidArgumentError(
                "patterns", f"{name!r:.60} must be a small word of its own, not one of {', '.join(TYPES)}"
            )
        if not isinstance(pattern, str | re.Pattern):
            raise InvalidArgumentError(
                "patterns", f"{name} is not a regular expression: {type(pattern).__name__}"
            )
        try:
            checked[name] = re.compile(cast("str | re.Pattern[str]", pattern))
        except re.error as error:
            raise InvalidArgumentError("patterns", f"{name} is not a regular expression: {error}") from error
    return checked
