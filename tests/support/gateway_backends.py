"""A gateway's backend on a test server, and a run for it to recall and persist."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.gateway_server import GatewayServer, settings_for

from recollect.backends.base import AuditLog, CompletedRun, StartedRun
from recollect.backends.gateway.backend import MemoryGatewayBackend
from recollect.backends.gateway.client import MemoryGatewayClient

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOON_MS = 1_777_636_800_000
STARTED = StartedRun("s1", "r1", "Do I drink tea?")
COMPLETED = CompletedRun("s1", "r1", "Do I drink tea?", "You do.", NOON, NOON + timedelta(seconds=1))
TEA = {"id": "m1", "text": "Ada drinks tea.", "raw": {"secret": "backend"}}


def backend_on(
    server: GatewayServer,
    audit: AuditLog,
    **changes: Any,  # noqa: ANN401 - those of the settings
) -> MemoryGatewayBackend:
    """Return a backend whose gateway is the server."""
    return MemoryGatewayBackend(MemoryGatewayClient(settings_for(server, **changes)), audit)
