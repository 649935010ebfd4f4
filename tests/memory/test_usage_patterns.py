"""The ways to put a memory into an agent, and what is wrong use of them."""

import pytest
from tests.support.agents import ADA, Mode, answer, both_modes, model_of, texts
from tests.support.guards import Bystander, KeywordBlocker, Moderation, SsnGuard
from tests.support.traps import AfterMemoryTrap

from recollect import (
    Agent,
    InvalidArgumentError,
    Memory,
    MessageHistoryProcessor,
    MessagePersistenceProcessor,
    Processor,
    Store,
)
from recollect.pipeline.assembly import Item, expand_providers, id_of

PATTERNS = ("memory=", "in both lists", "single processors", "one processor on both sides")


def agent_with(pattern: str, store: Store, model: object, memory: Memory) -> Agent:
    """Return an agent that keeps its history in one of these ways."""
    if pattern == "memory=":
        return Agent(model, memory=memory)
    if pattern == "in both lists":
        return Agent(model, input_processors=[KeywordBlocker(), memory], output_processors=[memory])
    if pattern == "single processors":
        return Agent(
            model,
            input_processors=[MessageHistoryProcessor(store)],
            output_processors=[MessagePersistenceProcessor(store)],
        )
    both = MessageHistoryProcessor(store)
    return Agent(model, input_processors=[both], output_processors=[both])


@pytest.mark.anyio
@both_modes
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_second_turn_sees_the_first_when_memory_is_used_in_any_pattern(
    store: Store, pattern: str, mode: Mode
) -> None:
    """A conversation is remembered in each of the patterns, on every engine."""
    model = model_of("Hello Ada.", "You are Ada.", mode=mode)
    agent = agent_with(pattern, store, model, Memory(store))
    first = await answer(agent, mode, "I am Ada", **ADA)
    second = await answer(agent, mode, "Who am I?", **ADA)
    assert first.saved
    assert second.saved
    expected = [("user", "I am Ada"), ("assistant", "Hello Ada."), ("user", "Who am I?")]
    assert texts(model.shown[1]) == expected
    assert texts(second.prompt) == expected
    stored = await Memory(store).get_messages(**ADA)
    assert texts(stored) == [*expected, ("assistant", "You are Ada.")]


@pytest.mark.anyio
@both_modes
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_run_sent_again_returns_the_stored_turn_when_memory_is_used_in_any_pattern(
    store: Store, pattern: str, mode: Mode
) -> None:
    """A committed run is not asked of the model again, whichever way the memory was put in."""
    model = model_of("first", "second", mode=mode)
    agent = agent_with(pattern, store, model, Memory(store))
    await answer(agent, mode, "hi", run_id="r1", **ADA)
    again = await answer(agent, mode, "hi", run_id="r1", **ADA)
    assert again.text == "first"
    assert len(model.shown) == 1


@pytest.mark.anyio
@both_modes
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_nothing_is_called_saved_when_no_ids_are_given_to_bare_processors(
    store: Store, pattern: str, mode: Mode
) -> None:
    """`saved` says what happened: a memory has a user, a bare processor has none."""
    memory = Memory(store, user_id="ada")
    agent = agent_with(pattern, store, model_of("fine", mode=mode), memory)
    result = await answer(agent, mode, "hi")
    assert result.saved is bool(await memory.get_messages())


@pytest.mark.anyio
@both_modes
async def test_provider_serves_one_side_when_it_is_in_one_list(mode: Mode) -> None:
    """Memory among the input processors reads and does not write; among the output ones, the reverse."""
    async with Memory() as memory:
        await memory.add_message("user", "old")
        model = model_of("new", mode=mode)
        read = await answer(Agent(model, input_processors=[memory]), mode, "hi")
        write = await answer(Agent(model, output_processors=[memory]), mode, "hi")
        saved = await memory.get_messages()
    assert (read.saved, write.saved) == (False, True)
    assert texts(model.shown[0]) == [("user", "old"), ("user", "hi")]
    assert texts(model.shown[1]) == [("user", "hi")]
    assert texts(saved) == [("user", "old"), ("user", "hi"), ("assistant", "new")]


def _ids(items: list[Item], side: str, memory: Memory | None = None) -> list[str]:
    return [id_of(item) for item in expand_providers(items, "input" if side == "input" else "output", memory)]


def test_memory_runs_after_the_guards_when_it_is_given_beside_the_lists() -> None:
    """`memory=` comes after the guards and before processors with `after_memory`."""
    memory = Memory()
    after, guard = AfterMemoryTrap(), KeywordBlocker()
    assert _ids([guard, after], "input", memory) == ["keyword-blocker", "message-history", after.id]
    assert _ids([guard], "input", memory) == ["keyword-blocker", "message-history"]
    answers = SsnGuard(name="answers")
    answers.after_memory = True
    assert _ids([answers, Moderation()], "output", memory) == [
        "answers",
        "moderation",
        "message-persistence",
    ]


def test_memory_stays_in_its_place_when_it_is_in_the_list_already() -> None:
    """`memory=` adds nothing to a list that has it."""
    memory = Memory()
    assert _ids([memory, KeywordBlocker()], "input", memory) == ["message-history", "keyword-blocker"]


@pytest.mark.anyio
@both_modes
@pytest.mark.parametrize(("last_messages", "shown"), [(False, 1), (True, 3)])
async def test_model_is_shown_no_history_when_history_is_off(
    mode: Mode,
    last_messages: bool,  # noqa: FBT001 - both are values of the option
    shown: int,
) -> None:
    """`last_messages=False` shows nothing, True means the default; the turns are kept with both."""
    async with Memory(last_messages=last_messages) as memory:
        assert [id_of(item) for item in memory.get_input_processors()] == ["message-history"]
        model = model_of("one", "two", mode=mode)
        agent = Agent(model, memory=memory)
        await answer(agent, mode, "first", **ADA)
        await answer(agent, mode, "second", **ADA)
        stored = await memory.get_messages(**ADA)
    assert [len(messages) for messages in model.shown] == [1, shown]
    assert [message.text for message in stored] == ["first", "one", "second", "two"]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([SsnGuard(name="a"), SsnGuard(name="a")], "two processors have the id 'a'; give one of them"),
        ([Bystander, SsnGuard()], "item 0 is the class Bystander; use a Processor"),
        ([SsnGuard(), "memory"], "item 1 is a str; use a Processor, or a provider such as a Memory"),
        ([None], "item 0 is a NoneType"),
    ],
)
@pytest.mark.parametrize("side", ["input_processors", "output_processors"])
def test_wrong_use_is_an_error_at_construction(items: list[Item], problem: str, side: str) -> None:
    """A list that cannot work says at once what to do about it."""
    with pytest.raises(InvalidArgumentError, match=problem) as caught:
        Agent("offline", **{side: items})  # pyright: ignore[reportArgumentType] - a wrong use
    assert caught.value.argument == side


@pytest.mark.parametrize("side", ["input_processors", "output_processors"])
def test_provider_twice_is_an_error_when_in_one_list(side: str) -> None:
    """The same memory twice in a list, or beside its own processors, is refused."""
    memory = Memory()
    own: list[Processor] = (
        memory.get_input_processors() if side.startswith("input") else memory.get_output_processors()
    )
    for items in ([memory, memory], [*own, memory]):
        with pytest.raises(InvalidArgumentError, match=r"twice|two processors have the id"):
            Agent("offline", **{side: items})  # pyright: ignore[reportArgumentType] - a wrong use


def test_processor_without_id_goes_by_its_class() -> None:
    """Two processors of one class need ids, and one of them has the name of its class."""
    with pytest.raises(InvalidArgumentError, match="two processors have the id 'Processor'"):
        Agent("offline", input_processors=[Processor(), Processor()])
