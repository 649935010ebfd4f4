"""Which tool call belongs to which result, and which messages must never be parted for it.

A result belongs to the nearest call of its id in a message before it: an id may be used again later in a
conversation. The first result of a call is its answer; a further one answers nothing, but stays beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from recollect.messages import Message, ToolCall, ToolResult


class ToolPair(NamedTuple):
    """A call, the result that answers it, and the indexes of the messages that hold them."""

    call_index: int
    call: ToolCall
    result_index: int
    result: ToolResult


def pair_calls(messages: Sequence[Message]) -> Iterator[ToolPair]:
    """Yield the calls that are answered, in the order of their results."""
    answered: set[tuple[int, str]] = set()
    for result_index, result, made in _match_results(messages):
        if made is not None and (key := (made[0], result.call_id)) not in answered:
            answered.add(key)
            yield ToolPair(*made, result_index, result)


def drop_orphan_results(messages: Sequence[Message]) -> list[Message]:
    """Return messages without results whose call is not before them: no model takes one without the other."""
    orphans = {id(result) for _, result, made in _match_results(messages) if made is None}
    kept: list[Message] = []
    for message in messages:
        parts = [part for part in message.parts if id(part) not in orphans]
        if len(parts) == len(message.parts):
            kept.append(message)
        elif parts:
            kept.append(message.replace(content=parts))
    return kept


def assign_units(
    turn: Sequence[tuple[int, Message]], earlier_calls: Mapping[str, int] | None = None
) -> list[int]:
    """Return the unit of each message of a turn, given as (position, message) in order.

    A unit is a call, its results and all between them, named by the position of its first message; a message
    without tools is a unit of its own. Paging, trimming and deleting work on whole units. `earlier_calls`
    names the unit of each call that stands before the turn and is answered in it.
    """
    units = [position for position, _ in turn]
    for index, result, made in _match_results([message for _, message in turn]):
        if made is not None:
            _join(units, index, units[made[0]])
        elif earlier_calls and result.call_id in earlier_calls:
            _join(units, index, earlier_calls[result.call_id])
    return units


def find_earlier_calls(turn: Sequence[Message]) -> set[str]:
    """Return the calls that a turn answers but that were made before it."""
    return {result.call_id for _, result, made in _match_results(turn) if made is None}


def _match_results(
    messages: Sequence[Message],
) -> Iterator[tuple[int, ToolResult, tuple[int, ToolCall] | None]]:
    """Yield each result with the index of its message, and its call with the index of that one's message."""
    calls: dict[str, tuple[int, ToolCall]] = {}
    for index, message in enumerate(messages):
        if isinstance(message.body, str):
            continue
        for result in message.tool_results:
            yield index, result, calls.get(result.call_id)
        calls |= {call.id: (index, call) for call in message.tool_calls}


def _join(units: list[int], last: int, unit: int) -> None:
    for index in range(last, -1, -1):
        if units[index] <= unit:
            break
        units[index] = unit
