"""What guards share: reports without text, and whom they tell."""

import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.support.contexts import new_run

from recollect import InvalidArgumentError, RunContext
from recollect.guards.detection import Detection, Rows, check_callback, report_detections


def test_report_names_kinds_and_counts_in_trace_log_and_callback(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asked gets the detections; the trace and the log get no more than kinds and counts."""
    run = new_run()
    ctx = RunContext(run, "guard", "input")
    told: list[Sequence[Detection]] = []
    found = [Detection("email", 3, 9), Detection("card", 20, 36, 0.8), Detection("email", 40, 46)]
    with caplog.at_level(logging.INFO, "recollect"):
        report_detections(found, ctx, action="redacted", on_detection=lambda seen, _: told.append(seen))
        report_detections(found[:1], ctx, action="warned")
        report_detections([], ctx, action="never")
    entry = run.trace.find("guard", "input")
    assert entry is not None
    assert entry.notes == ["redacted: 3 found (card, email)", "warned: 1 found (email)"]
    assert told == [found]
    assert [record.getMessage() for record in caplog.records] == [
        "guard redacted: 3 found (card, email)",
        "guard warned: 1 found (email)",
    ]


def test_callback_is_a_plain_function() -> None:
    """One that is async would never run, which nobody would notice."""

    async def told(found: Sequence[Detection], ctx: RunContext) -> None:
        """Do nothing."""

    for wrong in (told, "log", 5):
        with pytest.raises(InvalidArgumentError, match="on_detection: must be a plain function"):
            check_callback(cast("Any", wrong))
    assert check_callback(None) is None
    assert check_callback(print) is print


def test_rows_are_a_sequence_of_findings() -> None:
    """Findings in columns come back one by one, as slices, and in order."""
    rows = Rows(Detection)
    rows.extend([("email", 0, 5, 0.5), ("card", 7, 26, 1.0), ("phone", 30, 41, 0.5)])
    expected = [Detection("email", 0, 5, 0.5), Detection("card", 7, 26, 1.0), Detection("phone", 30, 41, 0.5)]
    assert list(rows) == expected
    assert (rows[1:], rows[-1], len(rows)) == (expected[1:], expected[-1], 3)
