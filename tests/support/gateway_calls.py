"""The three calls of the gateway's client by their names, and calls that have to fail."""

import pytest

from recollect import MemoryGatewayError
from recollect.backends.gateway.client import GatewayMessage, MemoryGatewayClient

OPERATIONS = ("search", "add", "flush")

each_operation = pytest.mark.parametrize("operation", OPERATIONS)
"""Runs a test for each call."""


async def call_gateway(client: MemoryGatewayClient, operation: str, text: str = "tea") -> object:
    """Do one of the three calls."""
    if operation == "search":
        return await client.search("s1", text)
    if operation == "add":
        return await client.add("chat:s1", [GatewayMessage("ada", "user", 1, text)])
    return await client.flush("chat:s1")


async def fail_call(client: MemoryGatewayClient, operation: str, text: str = "tea") -> MemoryGatewayError:
    """Do a call that has to fail, and return its error."""
    with pytest.raises(MemoryGatewayError) as caught:
        await call_gateway(client, operation, text)
    return caught.value
