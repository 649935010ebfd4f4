"""Turns the caller's list into the processors that run, in order."""

import logging
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast

from recollect.errors import InvalidArgumentError
from recollect.pipeline.processor import InputProvider, OutputProvider, Processor

_log = logging.getLogger("recollect")

Provider: TypeAlias = InputProvider | OutputProvider
"""Something that a list replaces by its processors; it may have those of one side only."""

Item: TypeAlias = Processor | Provider
"""An item of a processor list."""

Side: TypeAlias = Literal["input", "output"]
"""Whether a list runs before the model or after it."""

HOOKS: Mapping[Side, Sequence[str]] = {
    "input": ("process_input", "process_tool_result"),
    "output": (
        "process_tool_call",
        "process_output_stream",
        "finish_output_stream",
        "process_output_result",
    ),
}
"""The hooks of each side."""


def expand_providers(items: Sequence[Item], side: Side, memory: Provider | None = None) -> list[Processor]:
    """Return the processors of a list, each provider replaced by its own.

    `memory` goes after the guards and, on the input side, before the first processor with `after_memory`,
    unless it is in the list already.
    """
    _check_items(items, side)
    found = [(processor, item) for item in items for processor in _processors_of(item, side)]
    if memory is not None and not any(item is memory for item in items):
        place = _find_memory_index([processor for processor, _ in found], side)
        found[place:place] = [(processor, memory) for processor in _processors_of(memory, side)]
    _check_ids(found, side)
    return [processor for processor, _ in found]


def warn_if_unsaved(items: Sequence[Item], output_side: Sequence[Processor]) -> None:
    """Log a warning if an input list has a memory, and nothing on the output side stores turns."""
    if any(processor.writes_memory for processor in output_side):
        return
    for item in items:
        if isinstance(item, OutputProvider) and any(p.writes_memory for p in item.get_output_processors()):
            _log.warning(
                "%s is in input_processors alone, so it is read and nothing is saved; put it into "
                "output_processors too, or pass it as memory=",
                type(item).__name__,
            )


def id_of(processor: Processor) -> str:
    """Return the processor's id, or the name of its class."""
    return processor.id or type(processor).__name__


def _processors_of(item: Item, side: Side) -> list[Processor]:
    if isinstance(item, Processor):
        return [item]
    if side == "input":
        found = item.get_input_processors() if isinstance(item, InputProvider) else []
    else:
        found = item.get_output_processors() if isinstance(item, OutputProvider) else []
    return _check_processors(found, item, side)


def _check_processors(found: object, item: Item, side: Side) -> list[Processor]:
    if isinstance(found, Sequence):
        processors = list(cast("Sequence[object]", found))
        if all(isinstance(processor, Processor) for processor in processors):
            return cast("list[Processor]", processors)
    raise InvalidArgumentError(
        f"{side}_processors",
        f"{type(item).__name__}.get_{side}_processors must return a list of Processor values",
    )


def _find_memory_index(processors: Sequence[Processor], side: Side) -> int:
    if side == "input":
        for place, processor in enumerate(processors):
            if processor.after_memory:
                return place
    return len(processors)


def _is_item(value: object) -> bool:
    return isinstance(value, Processor | InputProvider | OutputProvider) and not isinstance(value, type)


def _describe(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _check_items(items: object, side: Side) -> None:
    argument = f"{side}_processors"
    if _is_item(items):
        raise InvalidArgumentError(
            argument, f"is one {type(items).__name__}; write a list: [{type(items).__name__}(…)]"
        )
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise InvalidArgumentError(
            argument, f"is {_describe(items)}; use a list, empty if there are no processors"
        )
    values = cast("Sequence[object]", items)
    for place, item in enumerate(values):
        if not _is_item(item):
            raise InvalidArgumentError(
                argument,
                f"item {place} is {_describe(item)}; use a Processor, or a provider such as a Memory",
            )
        if any(item is other for other in values[:place]):
            raise InvalidArgumentError(argument, f"item {place} is in the list twice; remove one")
        if isinstance(item, Processor):
            _check_hooks(item, side)


def _check_hooks(processor: Processor, side: Side) -> None:
    """Reject a processor whose hooks all belong to the other side."""
    other: Side = "output" if side == "input" else "input"
    if any(processor.overrides(hook) for hook in HOOKS[side]):
        return
    dead = [hook for hook in HOOKS[other] if processor.overrides(hook)]
    if dead:
        raise InvalidArgumentError(
            f"{side}_processors",
            f"{id_of(processor)} has only {' and '.join(dead)}, which would never run here; "
            f"put it into {other}_processors",
        )


def _check_ids(found: Sequence[tuple[Processor, Item]], side: Side) -> None:
    owners: dict[str, Item] = {}
    for processor, item in found:
        name = id_of(processor)
        if name in owners:
            raise InvalidArgumentError(
                f"{side}_processors",
                f"two processors have the id {name!r}; {_suggest_fix(processor, item, owners[name])}",
            )
        owners[name] = item


def _suggest_fix(processor: Processor, item: Item, other: Item) -> str:
    """Say how to resolve a duplicate id; processors of a provider cannot be renamed."""
    if isinstance(item, Processor) and isinstance(other, Processor):
        return f"give one of them another `id`; without one, {type(processor).__name__} has its class name"
    providers = [type(owner).__name__ for owner in (other, item) if not isinstance(owner, Processor)]
    return (
        f"it comes from {' and '.join(providers)}, and an agent has one memory on a side: remove one of them"
    )
