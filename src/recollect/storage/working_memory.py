"""Working memory: the fields that an agent keeps about a user or in a thread, in versions.

A scope without a thread means the memory of the user, over all apps and projects; one with a thread means
that thread's own.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import cast

from recollect.errors import ConflictError, InvalidArgumentError, MemoryNotFoundError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, Unchanged, query
from recollect.storage.rows import decode_json, from_micros, thread_keys, to_micros, user_keys
from recollect.storage.users import remove
from recollect.validation import check_id, check_int
from recollect.working_memory import (
    KEPT_VERSIONS,
    STRATEGIES,
    Check,
    Strategy,
    WorkingMemory,
    applied,
    encode,
)


class WorkingMemories(StoreCore):
    """Reading and changing working memory; whoever writes at the same time, no change is lost."""

    async def get_working_memory(self, *, scope: Scope) -> WorkingMemory:
        """Return the present fields; an empty value of version 0 where nothing is kept."""
        params = memory_keys(scope) | {"limit": 1}
        rows = await self._read(partial(query, "working_memory_versions", params, last=True), scope)
        return _decoded(rows[0]) if rows else WorkingMemory()

    async def update_working_memory(
        self,
        patch: dict[str, object],
        *,
        strategy: Strategy = "merge",
        expected_version: int | None = None,
        epoch: int | None = None,
        run_id: str | None = None,
        check: Check | None = None,
        scope: Scope,
    ) -> WorkingMemory:
        """Apply a change to the fields as they are at that moment, and return what they are now.

        A replacement that names a version which is no longer the present one is merged instead. With an
        epoch that is no longer the user's nothing is written, and `ConflictError` raised: something was
        removed meanwhile, and must not come back. `check` is shown the fields that the change alters. A
        change that alters nothing makes no new version.
        """
        change = _Change(
            json.loads(encode(patch, "patch")),  # a copy that nobody can spoil
            _checked_strategy(strategy),
            None if expected_version is None else check_int(expected_version, "expected_version"),
            None if epoch is None else check_int(epoch, "epoch"),
            _checked_check(check),
        )
        values: dict[str, object] = {
            "run_id": None if run_id is None else check_id(run_id, "run_id"),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_update, memory_keys(scope), change, values), scope)

    async def working_memory_history(self, *, limit: int | None = None, scope: Scope) -> list[WorkingMemory]:
        """Return the kept versions, the newest first."""
        wanted = KEPT_VERSIONS if limit is None else check_int(limit, "limit")
        params = memory_keys(scope) | {"limit": wanted}
        work = partial(query, "working_memory_versions", params, last=True)
        return [_decoded(row) for row in await self._read(work, scope, heavy=True)]

    async def restore_working_memory(self, version: int, *, scope: Scope) -> WorkingMemory:
        """Make an earlier version the present one, as a new version, and return it."""
        params = memory_keys(scope) | {
            "version": check_int(version, "version", minimum=1),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_restore, params), scope)

    async def clear_working_memory(self, *, scope: Scope) -> int:
        """Forget the fields with all their versions, and return how many versions there were."""
        return await self._write(partial(remove, "clear_working_memory", memory_keys(scope)), scope)


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to be done to a working memory, whatever it is by then."""

    patch: dict[str, object]
    strategy: Strategy
    expected_version: int | None
    epoch: int | None
    check: Check | None

    def on(self, current: WorkingMemory) -> dict[str, object]:
        lost_race = self.expected_version not in (None, current.version)
        strategy: Strategy = "merge" if lost_race else self.strategy
        return applied(current.to_dict(), self.patch, strategy, self.check)


def memory_keys(scope: Scope) -> dict[str, object]:
    """Return the key columns of the thread's working memory, or of the user's where no thread is named."""
    if scope.thread_id is not None:
        return thread_keys(scope)
    return user_keys(scope) | {"app_id": "", "project_id": "", "thread_id": ""}


def _update(keys: Params, change: _Change, values: Params) -> Transaction[WorkingMemory]:
    _, epochs, rows = yield Step(
        (
            Statement("lock_user", keys),
            Statement("find_epoch", keys),
            Statement("working_memory_versions", {**keys, "limit": 1}),
        )
    )
    if change.epoch not in (None, epochs[0][0]):
        raise ConflictError("something of this user was removed meanwhile; working memory stays as it is")
    current = _decoded(rows[0]) if rows else WorkingMemory()
    return (yield from _write(keys, current, change.on(current), values))


def _restore(params: Params) -> Transaction[WorkingMemory]:
    _, wanted, rows = yield Step(
        (
            Statement("lock_user", params),
            Statement("working_memory_version", params),
            Statement("working_memory_versions", {**params, "limit": 1}),
        )
    )
    if not wanted:
        raise MemoryNotFoundError(f"working memory has no version {params['version']}; see its history")
    values = {"run_id": None, "updated_at": params["updated_at"]}
    return (yield from _write(params, _decoded(rows[0]), _decoded(wanted[0]).to_dict(), values))


def _write(
    keys: Params, current: WorkingMemory, new: dict[str, object], values: Params
) -> Transaction[WorkingMemory]:
    """Write the next version, if it says something else, and drop the oldest."""
    text = encode(new, "patch")
    if _sorted(new) == _sorted(current.to_dict()):
        raise Unchanged(current)
    version = current.version + 1
    row = {**keys, **values, "version": version, "value": text}
    oldest = {**keys, "oldest": version - KEPT_VERSIONS}
    yield Step((Statement("add_working_memory", row), Statement("trim_working_memory", oldest)), last=True)
    return _decoded((version, text, values["run_id"], values["updated_at"]))


def _sorted(fields: dict[str, object]) -> str:
    # As JSON, because Python takes 1, 1.0 and True for the same.
    return json.dumps(fields, sort_keys=True)


def _decoded(row: Row) -> WorkingMemory:
    version, value, run_id, updated_at = row
    fields = cast("dict[str, object]", decode_json(value))
    return WorkingMemory(fields, version=version, updated_at=from_micros(updated_at), run_id=run_id)


def _checked_strategy(strategy: Strategy) -> Strategy:
    if strategy not in STRATEGIES:
        raise InvalidArgumentError("strategy", f"must be 'merge' or 'replace', not {strategy!r:.60}")
    return strategy


def _checked_check(check: object) -> Check | None:
    if check is not None and not callable(check):
        raise InvalidArgumentError("check", f"must be a function, not {type(check).__name__}")
    return cast("Check | None", check)
