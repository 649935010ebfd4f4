"""What each agent's model was last shown in this task.

One context variable serves all agents, because a context never lets go of a variable. Its value is replaced
and never changed, because tasks share it with those that they start.
"""

from contextvars import ContextVar
from weakref import WeakKeyDictionary

from recollect.messages import Message

_shown: ContextVar[WeakKeyDictionary[object, list[Message]] | None] = ContextVar(
    "recollect_shown", default=None
)


def note_shown(agent: object, messages: list[Message]) -> None:
    """Remember what an agent's model was shown; a run that asked no model changes nothing."""
    earlier = _shown.get()
    if not messages or (earlier is not None and earlier.get(agent) is messages):
        return
    known: WeakKeyDictionary[object, list[Message]] = WeakKeyDictionary(earlier or {})
    known[agent] = messages
    _shown.set(known)


def last_shown(agent: object) -> list[Message]:
    """Return what an agent's model was last shown in this task."""
    return list((_shown.get() or {}).get(agent, []))
