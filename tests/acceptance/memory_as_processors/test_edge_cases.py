"""Document A, "Edge Case Tests": `Memory Processor Edge Cases`."""

import pytest
from tests.acceptance.memory_as_processors.agents import ATTACK
from tests.support.agents import ADA, Mode, answer, both_modes, is_unopened, model_of
from tests.support.traps import ResultTrap

from recollect import (
    Agent,
    Memory,
    PromptInjectionDetector,
    Store,
    SystemPromptScrubber,
    TokenLimiterProcessor,
)

pytestmark = [pytest.mark.anyio, both_modes]


async def test_tripwire_in_input_processor_prevents_memory_access(mode: Mode) -> None:
    """No store is opened for a prompt that was blocked, with memory's processors on both sides."""
    memory, model = Memory(last_messages=10), model_of("never said")
    agent = Agent(
        model,
        input_processors=[PromptInjectionDetector(strategy="block"), *memory.get_input_processors()],
        output_processors=memory.get_output_processors(),
    )
    assert (await answer(agent, mode, ATTACK)).tripwire
    assert model.shown == []
    assert is_unopened(memory)


async def test_error_in_output_processor_prevents_memory_corruption(store: Store, mode: Mode) -> None:
    """An error after the guards reaches the caller, and neither messages nor a thread are kept."""
    memory = Memory(store, **ADA)
    agent = Agent(
        model_of("fine", mode=mode),
        output_processors=[
            SystemPromptScrubber(),
            TokenLimiterProcessor(10),
            ResultTrap(ValueError("Processing failed")),
            *memory.get_output_processors(),
        ],
    )
    with pytest.raises(ValueError, match="Processing failed"):
        await answer(agent, mode, "Test")
    assert await memory.get_messages() == []
    assert await memory.get_thread_by_id() is None
