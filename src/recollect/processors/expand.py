"""From what a caller put into a list to the processors that run, in order."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from recollect.errors import InvalidArgumentError
from recollect.processors.base import Processor, ProcessorProvider

Item: TypeAlias = Processor | ProcessorProvider
"""What a processor list may hold."""

Side: TypeAlias = Literal["input", "output"]
"""On which side of the model a list runs."""


def expand(items: Sequence[Item], side: Side, memory: ProcessorProvider | None = None) -> list[Processor]:
    """Return the processors of a list, each provider replaced by its own.

    `memory` goes behind the guards and, on the input side, before the first processor that wants to run
    behind memory, unless it is in the list already.
    """
    _check_items(items, side)
    processors = [processor for item in items for processor in _processors_of(item, side)]
    if memory is not None and not any(item is memory for item in items):
        place = _memory_place(processors, side)
        processors[place:place] = _processors_of(memory, side)
    _check_ids(processors, side)
    return processors


def id_of(processor: Processor) -> str:
    """Return the name that a processor goes by: its id, or that of its class."""
    return processor.id or type(processor).__name__


def _processors_of(item: Item, side: Side) -> list[Processor]:
    if isinstance(item, Processor):
        return [item]
    return item.get_input_processors() if side == "input" else item.get_output_processors()


def _memory_place(processors: Sequence[Processor], side: Side) -> int:
    if side == "input":
        for place, processor in enumerate(processors):
            if processor.after_memory:
                return place
    return len(processors)


def _check_items(items: Sequence[object], side: Side) -> None:
    argument = f"{side}_processors"
    for place, item in enumerate(items):
        if not isinstance(item, Processor | ProcessorProvider) or isinstance(item, type):
            raise InvalidArgumentError(
                argument,
                f"item {place} is a {type(item).__name__}; use a Processor, or a provider such as a Memory",
            )
        if any(item is other for other in items[:place]):
            raise InvalidArgumentError(argument, f"item {place} is in the list twice; take one of them out")


def _check_ids(processors: Sequence[Processor], side: Side) -> None:
    seen: set[str] = set()
    for processor in processors:
        name = id_of(processor)
        if name in seen:
            raise InvalidArgumentError(
                f"{side}_processors", f"two processors have the id {name!r}; give one of them another `id`"
            )
        seen.add(name)
