"""Which tool call belongs to which result, and which messages must stay together because of that.

A result belongs to the nearest earlier call with its id, because a conversation may use an id again. The
first result of a call is its answer; further ones answer nothing, but stay with the call.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from recollect.messages import Message, ToolCall, ToolResult

MAX_DISTANCE = 256
"""How many messages after its call a result may come and still stay together with it.

More than the calls of one step: providers allow some 128 at once.
"""


class ToolPair(NamedTuple):
    """A call, the result that answers it, and the indexes of the messages that hold them."""

    call_index: int
    call: ToolCall
    result_index: int
    result: ToolResult


def pair_calls(messages: Sequence[Message]) -> Iterator[ToolPair]:
    """Yield the calls that have a result, in the order of the results."""
    answered: set[tuple[int, str]] = set()
    for result_index, result, made in _match_results(messages):
        if made is not None and (key := (made[0], result.call_id)) not in answered:
            answered.add(key)
            yield ToolPair(*made, result_index, result)


def drop_orphan_results(messages: Sequence[Message]) -> list[Message]:
    """Return messages without results that have no earlier call: models reject those."""
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

    A unit is a call, its results and all between them; its number is the position of its first message. A
    message without tools is a unit of its own, and so is a result that comes more than `MAX_DISTANCE`
    messages after its call: it would tie a long conversation together. Paging and trimming work on whole
    units; deleting takes the calls and results of a unit together. `earlier_calls` maps the calls before the
    turn that it answers to their units.

        position   0 "hi"   1 call c   2 "wait"   3 result of c   4 "done"
        unit       0        1          1          1               4
    """
    units = [position for position, _ in turn]
    for index, result, made in _match_results([message for _, message in turn]):
        if made is not None:
            if turn[index][0] - turn[made[0]][0] <= MAX_DISTANCE:
                _join(units, index, units[made[0]])
        elif earlier_calls and result.call_id in earlier_calls:
            _join(units, index, earlier_calls[result.call_id])
    return units


def find_earlier_calls(turn: Sequence[tuple[int, Message]]) -> dict[str, int]:
    """Return the calls before the turn that it answers, and the position of the first result of each."""
    found: dict[str, int] = {}
    for index, result, made in _match_results([message for _, message in turn]):
        if made is None:
            found.setdefault(result.call_id, turn[index][0])
    return found


def _match_results(
    messages: Sequence[Message],
) -> Iterator[tuple[int, ToolResult, tuple[int, ToolCall] | None]]:
    """Yield each result with the index of its message, and its call with the index of its own."""
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
