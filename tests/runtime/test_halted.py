"""`haltedModes`: a user whose state says so gets no answer."""

from pathlib import Path

import pytest
from tests.runtime.runtimes import loaded

from recollect import Scope, open_store
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_halted_user_is_not_answered_when_the_configuration_names_the_mode(tmp_path: Path) -> None:
    """Without the line, and in other states, everybody is answered."""
    async with loaded(tmp_path, "curated", ScriptedModel("hello"), haltedModes=["halted"]) as setup:
        assert (await setup.say("run", "hi")).text == "hello"
        async with open_store(setup.runtime.config.store) as store:
            await store.set_state("halted", scope=Scope(None, "local"))
        stopped = await setup.say("run", "hi")
        assert str(stopped.tripwire) == "this user is halted"
    async with loaded(tmp_path, "curated", ScriptedModel("hello")) as setup:
        assert (await setup.say("run", "hi")).text == "hello"
