"""Tenants that tests on every face use: texts that SQL or a careless comparison would take for others."""

from recollect.scope import SYSTEM_TENANT

LONGEST = "é" * 256

HOSTILE_TENANTS: tuple[str, ...] = (
    "x'; DROP TABLE messages; --",
    "\\",
    "\\\\",
    '"',
    "%s",
    "%",
    ":tenant_id",
    "$1",
    "0",
    " 1",
    "1 ",
    "01",
    "+1",
    "1.0",
    "-1",
    "\uff11",
    "\uff10",
    "acme",
    "ACME",
    "é",
    "e\u0301",
    "None",
    "null",
    "system",
    "(SYSTEM)",
    "(system) ",
    LONGEST,
    LONGEST[:-1] + "è",
    "a\nb",
)
"""Texts that are each a tenant of its own, other than None and 1; two are digits of full width."""

BAD_TENANTS: tuple[object, ...] = (
    *("", "x" * 513, "é" * 257, "a\0b", "\ud800", SYSTEM_TENANT),
    *(0, -1, 2**63, True, False, 1.0, b"1", [], (1,)),
)
"""What is no tenant."""


def show_tenant(tenant: object) -> str:
    """Return how a test that is parametrised with tenants names one."""
    return ascii(tenant)[:20]
