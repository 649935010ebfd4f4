"""`prepare`: what the first run would load is loaded before, and loading does not hold the event loop."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.agents import ADA, is_unopened, model_of
from tests.support.embedders import Words

from recollect import Agent, InvalidArgumentError, Memory, ModelUnavailableError

pytestmark = pytest.mark.anyio

FIRST_RUN = """
import asyncio, sys
from recollect import Agent
from recollect.testing import ScriptedModel

async def count(done):
    ticks = 0
    while not done.done():
        await asyncio.sleep(0.001)
        ticks += 1
    return ticks

async def main():
    assert "pydantic_ai" not in sys.modules
    run = asyncio.create_task(Agent(ScriptedModel("fine")).generate("hi"))
    ticks = await count(run)
    assert "pydantic_ai" in sys.modules
    print(run.result().text, ticks)

asyncio.run(main())
"""


def test_others_go_on_when_the_first_run_loads_the_model_layer(tmp_path: Path) -> None:
    """The import takes a second of processor time; another task gets its turns meanwhile."""
    found = subprocess.run(
        [sys.executable, "-c", FIRST_RUN], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    text, ticks = found.stdout.split()
    assert text == "fine"
    assert int(ticks) > 5


async def test_store_is_open_and_the_tools_are_known_after_prepare(sqlite_url: str) -> None:
    """Nothing is left for the first run, and mistakes are raised now."""
    memory = Memory(sqlite_url)
    agent = Agent(model_of("fine"), memory=memory)
    assert is_unopened(memory)
    await agent.prepare()
    assert not is_unopened(memory)
    assert (await agent.generate("hi", **ADA)).text == "fine"
    await memory.close()
    with pytest.raises(InvalidArgumentError, match="tools"):
        await Agent(model_of("never said"), tools=[lambda: None]).prepare()
    with pytest.raises(ModelUnavailableError):
        await Agent("nobody:nothing").prepare()


async def test_own_embedder_is_not_called_by_prepare(sqlite_url: str) -> None:
    """It may be a service that costs money; only the built-in one is loaded."""
    embedder = Words()
    async with Memory(sqlite_url, semantic_recall=True, embedder=embedder) as memory:
        await memory.prepare()
    assert embedder.asked == embedder.read == []


def test_sync_code_can_prepare(sqlite_url: str) -> None:
    """The sync side has it too, for the loop of its own thread."""
    with Agent(model_of("fine"), memory=Memory(sqlite_url)).sync as agent:
        agent.prepare()
        assert agent.generate("hi", **ADA).saved
    with Memory(sqlite_url).sync as memory:
        memory.prepare()
