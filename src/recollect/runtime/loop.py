"""The agent loop: one run of a session on the one pipeline, whichever long-term memory there is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Self, TypedDict

from recollect.agent.agent import Agent
from recollect.agent.result import Event, Result, Usage
from recollect.agent.stream import RunStream, SyncStream
from recollect.concurrency.sync_face import SyncFace, as_twin, sync_method
from recollect.messages import Message
from recollect.pipeline.context import TripWire
from recollect.runtime.sessions.sessions import Sessions
from recollect.runtime.skills import SKILLS, SkillFolder
from recollect.scope import TenantId
from recollect.trace import Trace
from recollect.validation import check_id

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class AgentRunResult:
    """The outcome of a run in a session.

    `text` is the answer, empty where `tripwire` says what stopped the run. `saved` says whether the session
    has kept the turn. Failures of long-term memory change nothing here: the trace and the events have them.
    """

    text: str
    session_id: str
    run_id: str
    tripwire: TripWire | None
    trace: Trace
    finish_reason: str | None
    saved: bool
    usage: Usage
    messages: list[Message]
    prompt: list[Message]


def make_run_result(result: Result, session_id: str) -> AgentRunResult:
    """Return an agent's result as that of a session."""
    return AgentRunResult(
        text=result.text,
        session_id=session_id,
        run_id=result.run_id,
        tripwire=result.tripwire,
        trace=result.trace,
        finish_reason=result.finish_reason,
        saved=result.saved,
        usage=result.usage,
        messages=result.messages,
        prompt=result.prompt,
    )


LIMIT_ANSWER = (
    "I had to stop here: this took more tool calls than I am allowed. Ask me again in smaller steps."
)
"""The answer if the model still calls tools after the last round that it may have."""


class _CallOptions(TypedDict):
    run_id: str | None
    context: dict[str, object]
    tenant_id: TenantId
    user_id: str
    thread_id: str


class AgentLoop:
    """Runs prompts in sessions; every run has a session, a new one where none is named."""

    def __init__(self, agent: Agent, sessions: Sessions, skills: SkillFolder) -> None:
        """The agent's memory must be that of the sessions."""
        self._agent = agent
        self._skills = skills
        self.portals = agent.portals
        self.sessions = sessions

    async def run(
        self,
        prompt: str,
        session_id: str | None = None,
        skills: Sequence[str] = (),
        *,
        run_id: str | None = None,
    ) -> AgentRunResult:
        """Answer a prompt in a session; a trip is `result.tripwire`, a model's failure is raised."""
        session = self._choose_session(session_id)
        result = await self._agent.generate(prompt, **self._make_options(session, skills, run_id))
        return make_run_result(result, session)

    def stream(
        self,
        prompt: str,
        session_id: str | None = None,
        skills: Sequence[str] = (),
        *,
        run_id: str | None = None,
    ) -> "SessionStream":
        """Answer a prompt as a stream of events; use `async with` to leave early without loose ends.

        The session keeps the prompt and what was received of a run that is left.
        """
        session = self._choose_session(session_id)
        return SessionStream(
            self._agent.stream(prompt, **self._make_options(session, skills, run_id)), session
        )

    @property
    def sync(self) -> "SyncAgentLoop":
        """The same methods for sync code."""
        return SyncAgentLoop(self, self.portals)

    def _choose_session(self, session_id: str | None) -> str:
        return self.sessions.new_id() if session_id is None else check_id(session_id, "session_id")

    def _make_options(self, session: str, skills: Sequence[str], run_id: str | None) -> _CallOptions:
        return {
            "run_id": run_id,
            "context": {SKILLS: self._skills.read(skills)},
            "tenant_id": self.sessions.user.tenant_id,
            "user_id": self.sessions.user.user_id,
            "thread_id": session,
        }


class SessionStream:
    """A run of a session as a stream of events."""

    def __init__(self, stream: RunStream, session_id: str) -> None:
        """The run starts when the first event is requested."""
        self.stream = stream
        self.session_id = session_id
        self.run_id = stream.run_id
        self.trace = stream.trace

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self.stream)

    async def result(self) -> AgentRunResult:
        """Run to the end and return the result."""
        return make_run_result(await self.stream.result(), self.session_id)

    async def aclose(self) -> None:
        """Leave the run: the session keeps the prompt and what was received, marked as aborted."""
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _stream(
    method: Callable[Concatenate[AgentLoop, P], SessionStream],
) -> Callable[Concatenate["SyncAgentLoop", P], Iterator[Event]]:
    def call(face: "SyncAgentLoop", *args: P.args, **kwargs: P.kwargs) -> Iterator[Event]:
        return face.events_of(method, *args, **kwargs)

    return as_twin(call, method)


class SyncAgentLoop(SyncFace[AgentLoop]):
    """The methods of `AgentLoop` for sync code: `loop.sync`."""

    run = sync_method(AgentLoop.run)
    stream = _stream(AgentLoop.stream)

    def events_of(
        self, method: Callable[Concatenate[AgentLoop, P], SessionStream], *args: P.args, **kwargs: P.kwargs
    ) -> Iterator[Event]:
        """Go through the events of a session's stream."""
        stream = method(self._subject, *args, **kwargs)
        yield from SyncStream(self._portals.get(), stream.stream)
