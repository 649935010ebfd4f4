"""`recollect prune`: deletes old messages, and those that have expired."""

import re
from datetime import timedelta
from typing import Annotated

import typer

from recollect.cli.options import (
    Json,
    StoreUrl,
    System,
    Tenant,
    choose_tenant,
    require_database,
    run_in_store,
)
from recollect.cli.output import progress_bar, write_json, write_lines
from recollect.errors import InvalidArgumentError
from recollect.messages import now
from recollect.recall.embedding.indexer import users_of
from recollect.scope import Scope, TenantId
from recollect.storage.records import PrunedUser
from recollect.storage.store import Store

_AGE = re.compile(r"([0-9]{1,5})\s*([hdw])")  # at most 99,999 weeks, some 1,900 years
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}

Age = Annotated[
    str, typer.Option("--older-than", help="The age from which messages go: 12h, 90d or 8w.", metavar="AGE")
]
Someone = Annotated[str | None, typer.Option("--user", help="One user; without it all users of the tenant.")]
Yes = Annotated[bool, typer.Option("--yes", help="Delete. Without it the messages are only counted.")]


def prune(  # noqa: PLR0917 - one for each option
    older_than: Age,
    store: StoreUrl = None,
    tenant: Tenant = None,
    system: System = False,
    user: Someone = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Count the messages that are older than an age or have expired; with --yes, delete them.

    A tool call goes with its results, when all of them are older. Memory, state and events stay.
    """
    age = parse_age(older_than)
    owner, url = choose_tenant(tenant, system=system), require_database(store)
    pruned = run_in_store(url, lambda opened: _prune_all(opened, owner, user, age, dry_run=not yes))
    total = PrunedUser(*map(sum, zip((0, 0), *pruned.values(), strict=False)))
    if json:
        users = {name: counts._asdict() for name, counts in pruned.items()}
        write_json({"deleted": yes, **total._asdict(), "users": users})
        return
    found = f"{total.old:,} messages older than {older_than} and {total.expired:,} expired ones"
    said = f"{found}, of {len(pruned):,} users."
    if yes:
        write_lines(f"Deleted {said}")
    elif pruned:
        write_lines(f"Would delete {said} Run it again with --yes to delete them.")
    else:
        write_lines(f"Nothing to delete: there are {said}")


def parse_age(text: str) -> timedelta:
    """Return the age that a text such as 90d means."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidArgumentError("older-than", f"must look like 12h, 90d or 8w, not {text!r:.60}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


async def _prune_all(
    store: Store, tenant_id: TenantId, user: str | None, age: timedelta, *, dry_run: bool
) -> dict[str, PrunedUser]:
    """Return what was pruned of each user who had something to prune."""
    before = now() - age
    users = [user] if user is not None else await users_of(store, tenant_id)
    found: dict[str, PrunedUser] = {}
    with progress_bar() as show:
        for number, user_id in enumerate(users):
            show(f"user {user_id}", number / len(users))
            counts = await store.prune(before, dry_run=dry_run, scope=Scope(tenant_id, user_id))
            if any(counts):
                found[user_id] = counts
    return found
