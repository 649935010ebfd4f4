"""Lists that cannot work: the error comes at construction and says what to do."""

from typing import Any

import pytest
from tests.support.guards import SsnGuard

from recollect import Agent, InvalidArgumentError, Memory, MessagePersistenceProcessor, Processor
from recollect.pipeline.assembly import expand_providers

SIDES = ("input", "output")


class Provides:
    """A provider that returns the same for both sides."""

    def __init__(self, value: object) -> None:
        """Take what to return."""
        self._value: Any = value

    def get_input_processors(self) -> list[Processor]:
        """Return it."""
        return self._value

    def get_output_processors(self) -> list[Processor]:
        """Return it."""
        return self._value


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (SsnGuard(), r"is one SsnGuard; write a list: \[SsnGuard\(…\)\]"),
        (Memory(), "is one Memory; write a list"),
        (None, "is a NoneType; use a list, empty if there are no processors"),
        ((guard for guard in [SsnGuard()]), "is a generator; use a list"),
        ("guard", "is a str; use a list"),
        (SsnGuard, "is the class SsnGuard; use a list"),
        ([Provides(None)], "Provides.get_{side}_processors must return a list of Processor values"),
        ([Provides([object()])], "Provides.get_{side}_processors must return a list of Processor values"),
        ([Provides([Memory()])], "Provides.get_{side}_processors must return a list of Processor values"),
    ],
)
def test_wrong_list_is_refused(side: str, value: object, problem: str) -> None:
    """What is no list of processors is named, and so is a provider that returns none."""
    sides: dict[str, Any] = {f"{side}_processors": value}
    with pytest.raises(InvalidArgumentError, match=problem.format(side=side)) as caught:
        Agent("offline", **sides)
    assert caught.value.argument == f"{side}_processors"


@pytest.mark.parametrize("value", ["sqlite:///x", Memory, [Memory()], SsnGuard()])
def test_wrong_memory_is_refused(value: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """`memory=` takes a memory, not its URL, its class, a list or a processor."""
    with pytest.raises(InvalidArgumentError, match="use a Memory") as caught:
        Agent("offline", memory=value)
    assert caught.value.argument == "memory"


@pytest.mark.parametrize("side", SIDES)
def test_second_memory_is_refused_with_the_way_out(side: str) -> None:
    """A memory cannot have another id, so the error does not ask for one."""
    sides: dict[str, Any] = {f"{side}_processors": [Memory()]}
    with pytest.raises(
        InvalidArgumentError, match=r"it comes from Memory and Memory.*remove one of them"
    ) as caught:
        Agent("offline", memory=Memory(), **sides)
    assert "another `id`" not in str(caught.value)


def test_processor_beside_the_memory_that_brings_it_is_refused() -> None:
    """The error names the memory."""
    with pytest.raises(InvalidArgumentError, match="'message-persistence'; it comes from Memory"):
        Agent("offline", memory=Memory(), output_processors=[MessagePersistenceProcessor("sqlite://")])


def test_two_memories_are_taken_when_each_serves_one_side() -> None:
    """One may be read and another written."""
    Agent("offline", input_processors=[Memory()], output_processors=[Memory()])


def test_provider_may_return_a_tuple() -> None:
    """Any sequence of processors will do."""
    Agent("offline", input_processors=[Provides((SsnGuard(),))])


class Reads:
    """A provider of the input side alone."""

    def get_input_processors(self) -> list[Processor]:
        """Return a guard."""
        return [SsnGuard()]


class Checks:
    """A provider of the output side alone."""

    def get_output_processors(self) -> list[Processor]:
        """Return a guard."""
        return [SsnGuard()]


@pytest.mark.parametrize("provider", [Reads(), Checks()])
def test_provider_of_one_side_has_no_processors_on_the_other(provider: Reads | Checks) -> None:
    """It may be in both lists, or be the memory."""
    counts = [len(expand_providers([provider], side)) for side in ("input", "output")]
    assert sorted(counts) == [0, 1]
    Agent("offline", memory=provider, input_processors=[provider], output_processors=[provider])


def test_warning_says_what_to_add_when_a_memory_would_never_save(caplog: pytest.LogCaptureFixture) -> None:
    """A memory in the input list alone is read only, which is seldom meant."""
    memory = Memory()
    Agent("offline", input_processors=[SsnGuard(), memory], output_processors=[memory])
    Agent("offline", input_processors=[memory], memory=memory)
    Agent("offline", input_processors=[Reads()])
    assert caplog.messages == []
    Agent("offline", input_processors=[memory])
    (warning,) = caplog.messages
    assert warning.startswith("Memory is in input_processors alone")
    assert warning.endswith("put it into output_processors too, or pass it as memory=")
