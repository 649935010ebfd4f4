"""What tests of the loop share: runtimes in both modes, and a model that shows what it was sent."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.support.gateway_server import KEY, GatewayServer, gateway_server

from recollect import ToolCall
from recollect.runtime.loader import AgentRuntime, EngineLoader
from recollect.runtime.loop import AgentRunResult
from recollect.storage.opening import open_store
from recollect.storage.records import AuditEvent

Way: TypeAlias = Literal["run", "stream"]

both_ways = pytest.mark.parametrize("way", ["run", "stream"])
"""Runs a test for `run` and for `stream`."""

both_modes = pytest.mark.parametrize("mode", ["curated", "memory_gateway"])
"""Runs a test with curated files and with a gateway."""


@dataclass
class Setup:
    """A loaded runtime, the folder of its configuration, and the gateway that it may use."""

    runtime: AgentRuntime
    folder: Path
    gateway: GatewayServer

    async def say(
        self, way: Way, prompt: str, session_id: str | None = "s1", skills: Sequence[str] = ()
    ) -> AgentRunResult:
        """Run a prompt in one of the two ways."""
        if way == "run":
            return await self.runtime.loop.run(prompt, session_id, skills)
        return await self.runtime.loop.stream(prompt, session_id, skills).result()

    async def events(self, session_id: str | None = "s1") -> list[AuditEvent]:
        """Return the audit events of a session, read by a store of our own."""
        async with open_store(self.runtime.config.store) as store:
            return await store.list_events(scope=self.runtime.config.scope.with_thread(session_id))

    async def transcript(self, session_id: str = "s1") -> list[tuple[str, str]]:
        """Return who said what in a session, read by a store of our own."""
        async with open_store(self.runtime.config.store) as store:
            messages = await store.last_messages(
                None, scope=self.runtime.config.scope.with_thread(session_id)
            )
        return [(message.role, message.text) for message in messages]

    def curated(self, name: str) -> str:
        """Return a curated file, or nothing."""
        file = self.folder / ".recollect" / "memories" / name
        return file.read_text("utf-8") if file.exists() else ""


def write_skill(folder: Path, name: str, text: str) -> None:
    """Put a skill into the folder of a configuration."""
    skill = folder / ".recollect" / "skills" / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(text, "utf-8")


def write_notes(folder: Path, name: str, text: str) -> None:
    """Write a curated file by hand."""
    memories = folder / ".recollect" / "memories"
    memories.mkdir(parents=True, exist_ok=True)
    (memories / name).write_text(text, "utf-8")


def call_to_add(content: str, target: str = "memory", call_id: str = "c1") -> ToolCall:
    """Return a call of the memory tool that adds an entry."""
    return ToolCall(call_id, "memory", {"target": target, "action": "add", "content": content})


@asynccontextmanager
async def loaded(folder: Path, mode: str, model: object, **config: Any) -> AsyncGenerator[Setup]:  # noqa: ANN401 - any JSON
    """Load a runtime in a mode, with a gateway on loopback beside it."""
    async with gateway_server() as server:
        gateway = {
            "baseUrl": server.url,
            "userId": "ada",
            "userKey": KEY,
            "scope": ["current_chat", "resources"],
            "timeoutSeconds": 30,
        } | config.pop("gateway", {})
        memory: dict[str, Any] = {"mode": mode} | ({"gateway": gateway} if mode == "memory_gateway" else {})
        file = folder / ".recollect" / "config.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"instructions": "Be kind.", "memory": memory} | config), "utf-8")
        async with EngineLoader(folder).load(model=model) as runtime:
            yield Setup(runtime, folder, server)


@dataclass
class WireModel:
    """A model of Pydantic AI that keeps what it was sent, as a provider would get it."""

    replies: list[str] = field(default_factory=lambda: ["fine"])
    system: list[str] = field(default_factory=list[str])
    """The whole system prompt of each request."""
    sent: list[list[str]] = field(default_factory=list[list[str]])
    """What came as the user's words in each request, in order, recalled reference among it."""

    def model(self) -> FunctionModel:
        """Return the model to give to a runtime."""

        async def respond(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str]:
            parts = [
                part for message in messages if isinstance(message, ModelRequest) for part in message.parts
            ]
            own = [part.content for part in parts if isinstance(part, SystemPromptPart)]
            self.system.append("\n".join(own))
            self.sent.append([str(part.content) for part in parts if isinstance(part, UserPromptPart)])
            yield self.replies[min(len(self.sent), len(self.replies)) - 1]

        return FunctionModel(stream_function=respond)
