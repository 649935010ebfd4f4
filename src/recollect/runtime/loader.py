"""Loads a runtime from a configuration file: an agent loop with exactly one long-term memory.

The file is read once. To change the mode, load again.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from recollect.agent.agent import Agent
from recollect.backends.base import MemoryBackend, StoreAudit
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.backends.gateway.backend import MemoryGatewayBackend
from recollect.backends.gateway.client import MemoryGatewayClient
from recollect.backends.processor import BackendProcessor
from recollect.concurrency.sync_face import ClosingFace, sync_method
from recollect.memory.user_state import UserStateGuard
from recollect.runtime.config.file import FOLDER
from recollect.runtime.config.guards_and_tools import check_names, load_tools, make_guards
from recollect.runtime.config.settings import RuntimeConfig, load_config
from recollect.runtime.erasure import FolderErasure, erase_folder
from recollect.runtime.loop import LIMIT_ANSWER, AgentLoop, SyncAgentLoop
from recollect.runtime.offline import OfflineAssistant
from recollect.runtime.sessions.search import SessionSearch
from recollect.runtime.sessions.sessions import SessionMemory, Sessions
from recollect.runtime.skills import SkillFolder
from recollect.storage.opening import StoreHandle

_HIDDEN = "*" * 10
_PASSWORD = re.compile(r"(?i)([a-z]*pass[a-z]*)=[^&]*")


class AgentRuntime:
    """A loaded runtime: the loop, its one long-term memory, and the tools that the model has."""

    def __init__(
        self,
        config: RuntimeConfig,
        loop: AgentLoop,
        backend: MemoryBackend,
        tools: Iterable[Callable[..., object]],
        parts: "tuple[StoreHandle, BackendProcessor, SessionSearch]",
    ) -> None:
        self.config = config
        self.loop = loop
        self.backend = backend
        self.tools = tuple(tools)
        self.tool_names = _list_names(self.tools)
        self._handle, self._processor, self._search = parts

    def status(self) -> dict[str, object]:
        """Return how the runtime is set up, as JSON and without secrets."""
        config = self.config
        return {
            "config": str(config.path),
            "mode": config.mode,
            "tenant_id": config.tenant_id,
            "user_id": config.user_id,
            "agent_id": config.agent_id,
            "model": config.model,
            "store": _hide_password(config.store),
            "persist": config.persist,
            "tools": list(self.tool_names),
            "guards": [guard.name for guard in config.guards],
            "skills": SkillFolder(config.skills).names(),
            "last_messages": config.last_messages,
            "max_tool_rounds": config.max_tool_rounds,
            "memory": self.backend.status(),
        }

    async def erase(self) -> FolderErasure:
        """Erase the user: sessions and events, and in the curated folder `USER.md`, its log and queue.

        The report names what was not reached: the model's own notes, and the copy at a gateway.
        """
        await self.wait_until_idle()
        return await erase_folder(self.config, await self._handle.get())

    async def wait_until_idle(self) -> None:
        """Wait for all background persistence to finish."""
        await self._processor.wait_until_idle()

    async def close(self) -> None:
        """Wait for background persistence, and close the backend and the store."""
        try:
            await self.wait_until_idle()
        finally:
            await self._search.close()
            await self.backend.close()
            await self._handle.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sync(self) -> "SyncAgentRuntime":
        """The same methods for sync code; its `loop` is the sync one."""
        return SyncAgentRuntime(self, self.loop.portals)


class SyncAgentRuntime(ClosingFace[AgentRuntime]):
    """The methods of `AgentRuntime` for sync code: `runtime.sync`."""

    erase = sync_method(AgentRuntime.erase)
    wait_until_idle = sync_method(AgentRuntime.wait_until_idle)

    @property
    def loop(self) -> SyncAgentLoop:
        """The loop that runs sessions."""
        return self._subject.loop.sync

    def status(self) -> dict[str, object]:
        """Return how the runtime is set up, as JSON and without secrets."""
        return self._subject.status()


class EngineLoader:
    """Makes a runtime of a configuration."""

    def __init__(self, path: str | os.PathLike[str] = FOLDER) -> None:
        """Take the path of the configuration file, or of its folder."""
        self._path = Path(path)

    def load(self, *, model: object | None = None) -> AgentRuntime:
        """Check the configuration and build the runtime; nothing is opened or asked yet.

        `model` takes the place of the one in the file. A wrong configuration is a `ConfigError`.
        """
        config = load_config(self._path)
        if model is not None:
            name = model if isinstance(model, str) else type(model).__name__
            config = config.model_copy(update={"model": name})
        handle = StoreHandle(config.store)
        backend = _make_backend(config, handle)
        processor = BackendProcessor(
            backend, in_background=config.persist == "after" and config.gateway is not None
        )
        search = SessionSearch(handle, config.scope)
        tools = [*load_tools(config.tools, config.base), *search.get_tools()]
        guards = make_guards(config.guards)
        if config.halted_modes:
            state = UserStateGuard(handle, modes=config.halted_modes, tenant_id=config.tenant_id)
            guards.input_side.insert(0, state)
        shown = (*tools, *backend.get_tools())
        names = _list_names(shown)
        check_names(names)
        chosen = config.model if model is None else model
        agent = Agent(
            OfflineAssistant(names, search) if chosen == "offline" else chosen,
            instructions="\n\n".join(filter(None, (config.instructions, backend.rule))),
            tools=tools,
            memory=SessionMemory(
                handle, processor, last_messages=config.last_messages, tenant_id=config.tenant_id
            ),
            input_processors=guards.input_side,
            output_processors=guards.output_side,
            max_steps=config.max_tool_rounds,
            limit_answer=LIMIT_ANSWER,
        )
        loop = AgentLoop(agent, Sessions(handle, config.scope), SkillFolder(config.skills))
        return AgentRuntime(config, loop, backend, shown, (handle, processor, search))


def _list_names(tools: Iterable[Callable[..., object]]) -> tuple[str, ...]:
    """Return the names by which the model calls them."""
    return tuple(tool.__name__ for tool in tools)


def _make_backend(config: RuntimeConfig, handle: StoreHandle) -> MemoryBackend:
    """Make the one long-term memory that the configuration chooses."""
    if config.gateway is not None:
        return MemoryGatewayBackend(MemoryGatewayClient(config.gateway), StoreAudit(handle, config.scope))
    curated = config.curated
    return CuratedMemoryBackend(
        curated.folder,
        memory_limit=curated.memory_limit,
        user_limit=curated.user_limit,
        log_limit=curated.log_limit,
        approval=curated.approval,
        audit=StoreAudit(handle, config.scope),
    )


def _hide_password(url: str) -> str:
    head, separator, rest = url.partition("://")
    before, at, host = rest.rpartition("@")
    user, colon, _ = before.partition(":")
    # PostgreSQL also takes a password among the parameters.
    shown = _PASSWORD.sub(rf"\1={_HIDDEN}", host)
    return f"{head}{separator}{user}{colon}{_HIDDEN if colon else ''}{at}{shown}"
