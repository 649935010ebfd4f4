"""Which messages must never be parted: a tool call, its results, and what stands between them.

Such a run of messages is a unit, named by the position of its first message. Paging, trimming
and deleting work on whole units; a message that is in no such run is a unit of its own.
"""

from collections.abc import Mapping, Sequence

from recollect.messages import Message


def assign_units(
    turn: Sequence[tuple[int, Message]], earlier_calls: Mapping[str, int] | None = None
) -> list[int]:
    """Return the unit of each message of a turn, given as (position, message) in order.

    `earlier_calls` names the unit of each call that stands before the turn and is answered in it.
    """
    units = [position for position, _ in turn]
    calls: dict[str, int] = {}
    for index, (_, message) in enumerate(turn):
        if isinstance(message.body, str):
            continue
        for result in message.tool_results:
            if result.call_id in calls:
                _join(units, index, units[calls[result.call_id]])
            elif earlier_calls and result.call_id in earlier_calls:
                _join(units, index, earlier_calls[result.call_id])
        calls |= {call.id: index for call in message.tool_calls}
    return units


def late_results(turn: Sequence[Message]) -> set[str]:
    """Return the calls that a turn answers but that were made before it."""
    made: set[str] = set()
    late: set[str] = set()
    for message in turn:
        if not isinstance(message.body, str):
            late |= {result.call_id for result in message.tool_results} - made
            made |= {call.id for call in message.tool_calls}
    return late


def _join(units: list[int], last: int, unit: int) -> None:
    for index in range(last, -1, -1):
        if units[index] <= unit:
            break
        units[index] = unit
