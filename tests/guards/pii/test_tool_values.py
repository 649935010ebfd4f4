"""Personal data in the arguments and results of tools: under names, in numbers, however deep."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.contexts import context, new_run

from recollect import Parallel, PIIDetector, ToolCall, ToolResult, TripWire

if TYPE_CHECKING:
    from recollect.guards.detection import Detection

pytestmark = pytest.mark.anyio

CARD = 4539148803436467


async def cleaned(values: dict[str, Any], guard: PIIDetector | Parallel | None = None) -> dict[str, Any]:
    """Return what is kept of a tool's arguments, which is also what is kept of such a result."""
    guard = guard or PIIDetector()
    call = await guard.process_tool_call(ToolCall("c", "send", values), context(new_run(), "tool_call"))
    result = await guard.process_tool_result(
        ToolResult("c", "send", values), context(new_run(), "tool_result")
    )
    assert result.content == call.arguments
    return dict(call.arguments)


async def test_numbers_are_looked_at_as_well_as_texts() -> None:
    """A card that a tool is given as a number is kept as little as one in words."""
    values = {
        "card": CARD,
        "sure": float(CARD),
        "deep": [{"list": [[-CARD, "x"]]}],
        "count": 12,
        "share": 0.5,
    }
    assert await cleaned(values) == {
        "card": "[REDACTED]",
        "sure": "[REDACTED]",
        "deep": [{"list": [["-[REDACTED]", "x"]]}],
        "count": 12,
        "share": 0.5,
    }


@pytest.mark.parametrize(
    "values",
    [
        {"password": "hunter22"},
        {"userPassword": "hunter22"},
        {"api_key": "8fK2mQ9sLx71"},
        {"phoneNumber": 4158672234},
        {"phones": ["4158672234"]},
        {"mobile_phone": "4158672234"},
        {"ssn": 219099998},
        {"date_of_birth": "1980-05-03"},
    ],
)
async def test_the_name_of_a_value_says_what_it_is(values: dict[str, Any]) -> None:
    """What a sentence would call a password or a number of somebody, an argument's name does."""
    (name,) = values
    assert await cleaned(values) in ({name: "[REDACTED]"}, {name: ["[REDACTED]"]})
    assert await cleaned(values, Parallel(PIIDetector())) == await cleaned(values)


@pytest.mark.parametrize(
    "values",
    [
        {"size_in_bytes": 5368709120, "total": 2234567890, "ids": [9876543210, 8765432109]},
        {"created": 1700000000, "createdMs": 1700000000123, "expires": 2234567890},
        {"version": "10.20.30.40", "driverVersion": "31.0.15.4601"},
        {"result": 2234567890, "ok": True, "none": None, "ratio": 2234567890.25},
        {"token": "string", "tokens": 4096, "password": "", "pin": None},
        {"isbn": "978-0-596-52068-7", "sku": 4006381333931},
    ],
)
async def test_ordinary_values_are_left_alone(values: dict[str, Any]) -> None:
    """Sums, times, versions and ids are not somebody's number."""
    assert await cleaned(values) == values


async def test_a_number_that_stands_alone_is_no_phone_number() -> None:
    """What a calculator gives back is shown."""
    guard = PIIDetector()
    for value in (2234567890, [2234567890], 9876543210.0):
        result = await guard.process_tool_result(
            ToolResult("c", "add", value), context(new_run(), "tool_result")
        )
        assert result.content == value


async def test_named_values_are_reported_and_blocked() -> None:
    """Warnings and blocks know of them too, with places in the value."""
    seen: list[Detection] = []
    guard = PIIDetector("warn", on_detection=lambda found, _: seen.extend(found))
    values = {"password": "hunter22"}
    assert await cleaned(values, guard) == values
    assert {(item.type, item.start, item.end) for item in seen} == {("secret", 0, 8)}
    with pytest.raises(TripWire, match="secret"):
        await cleaned(values, PIIDetector("block"))
    assert await cleaned({**values, "n": "ok"}, PIIDetector("filter")) == {"password": "", "n": "ok"}
