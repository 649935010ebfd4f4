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
import asyncio, sys, time
from recollect import Agent
from recollect.testing import ScriptedModel

longest = 0.0
run_handle = asyncio.Handle._run

def run_and_time(handle):
    global longest
    started = time.thread_time()
    run_handle(handle)
    longest = max(longest, time.thread_time() - started)

async def generate(agent):
    return (await agent.generate("hi")).text

async def stream(agent):
    return "".join([event.text async for event in agent.stream("hi") if event.type == "text"])

async def main(run):
    assert "pydantic_ai" not in sys.modules
    started = time.process_time()
    text = await run(Agent(ScriptedModel("fine")))
    assert "pydantic_ai" in sys.modules
    print(text, longest, time.process_time() - started)

asyncio.Handle._run = run_and_time
asyncio.run(main(locals()[sys.argv[1]]))
"""
REHEARSED = """
import asyncio, sys
from recollect import Agent, Memory
from recollect.testing import ScriptedModel

async def main(path):
    async with Memory(path, semantic_recall=True) as memory:
        agent = Agent(ScriptedModel("fine"), memory=memory)
        await agent.prepare()
        known = set(sys.modules)
        for place in range(3):
            await agent.generate("Where was Zo\u00eb yesterday?", resource_id="ada", thread_id=str(place))
            await memory.settled()
    print(sorted(set(sys.modules) - known))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("way", ["generate", "stream"])
def test_others_go_on_when_the_first_run_loads_the_model_layer(way: str, tmp_path: Path) -> None:
    """The import takes most of a second of processor time, and none of the event loop's thread."""
    text, longest, all_of_it = _run_python(FIRST_RUN, way, cwd=tmp_path).split()
    assert text == "fine"
    assert float(longest) < 0.1 * float(all_of_it)


def test_nothing_is_left_to_import_when_a_memory_that_recalls_was_prepared(tmp_path: Path) -> None:
    """Neither the first search nor one that finds something loads a module on the event loop."""
    assert _run_python(REHEARSED, str(tmp_path / "a.db"), cwd=tmp_path) == "[]"


def _run_python(program: str, *args: str, cwd: Path) -> str:
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout.strip()


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
