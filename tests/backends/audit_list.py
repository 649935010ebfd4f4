"""An audit log in a list, for tests of a backend without a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class AuditList:
    """Keeps events as (name, payload), and fails for the names that it is told to fail for."""

    events: list[tuple[str, dict[str, object]]] = field(default_factory=list[tuple[str, dict[str, object]]])
    owners: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    fails: Mapping[str, Exception] = field(default_factory=dict[str, Exception])

    @property
    def names(self) -> list[str]:
        """The names of the events, in order."""
        return [name for name, _ in self.events]

    async def record(self, name: str, payload: Mapping[str, object], *, session_id: str, run_id: str) -> None:
        """Keep an event, or fail."""
        if name in self.fails:
            raise self.fails[name]
        self.events.append((name, dict(payload)))
        self.owners.append((session_id, run_id))
