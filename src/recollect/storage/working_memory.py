"""Working memory: the fields that an agent stores about a user or a thread, with their versions.

A scope without a thread means the user's own working memory, over all apps and projects. A scope with a
thread means that thread's.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import cast

from recollect.errors import ConflictError, InvalidArgumentError, MemoryNotFoundError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Row, Statement, Step, Transaction, Unchanged
from recollect.storage.rows import (
    decode_each,
    decode_object,
    decoding,
    from_micros,
    thread_keys,
    to_micros,
    user_keys,
)
from recollect.storage.users import check_not_erased, remove_rows
from recollect.validation import check_choice, check_int, check_optional_id
from recollect.working_memory import (
    MAX_VERSIONS,
    STRATEGIES,
    Check,
    Strategy,
    WorkingMemory,
    apply_patch,
    encode_fields,
)


class WorkingMemories(StoreCore):
    """Reads and updates working memory; concurrent updates lose nothing."""

    async def get_working_memory(self, *, scope: Scope) -> WorkingMemory:
        """Return the current fields; an empty value of version 0 where nothing is stored."""
        params = memory_keys(scope) | {"limit": 1}
        rows = await self._query("working_memory_versions", params)
        return _decode(rows[0]) if rows else WorkingMemory()

    async def update_working_memory(  # noqa: PLR0913 - all but one by keyword
        self,
        patch: dict[str, object],
        *,
        strategy: Strategy = "merge",
        expected_version: int | None = None,
        seen_version: int | None = None,
        epoch: int | None = None,
        erase_epoch: int | None = None,
        run_id: str | None = None,
        check: Check | None = None,
        scope: Scope,
    ) -> WorkingMemory:
        """Apply a patch to the current fields, and return the new ones.

        If `expected_version` is not the current one, `ConflictError` is raised. `seen_version` is the one
        that a replacement was made from: if it is not the current one, the patch is merged instead.
        `epoch` guards against erased data: if it is not the user's epoch, `ConflictError` is raised, because
        something was deleted meanwhile and must not come back. `erase_epoch` guards in the same way, but only
        against an erasure (`UserErasedError`). `check` gets the fields that the patch alters. A patch that
        alters nothing creates no new version.
        """
        change = _Change(
            json.loads(encode_fields(patch, "patch")),  # a copy that the caller cannot change
            check_choice(strategy, "strategy", STRATEGIES),
            None if expected_version is None else check_int(expected_version, "expected_version"),
            None if seen_version is None else check_int(seen_version, "seen_version"),
            None if epoch is None else check_int(epoch, "epoch"),
            None if erase_epoch is None else check_int(erase_epoch, "erase_epoch"),
            _check_function(check),
        )
        values: dict[str, object] = {
            "run_id": check_optional_id(run_id, "run_id"),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_update, memory_keys(scope), change, values), scope)

    async def working_memory_history(self, *, limit: int | None = None, scope: Scope) -> list[WorkingMemory]:
        """Return the stored versions, newest first."""
        wanted = MAX_VERSIONS if limit is None else check_int(limit, "limit")
        params = memory_keys(scope) | {"limit": wanted}
        return decode_each(_decode, await self._query("working_memory_versions", params, heavy=True))

    async def restore_working_memory(self, version: int, *, scope: Scope) -> WorkingMemory:
        """Write the fields of an earlier version as a new version, and return it."""
        params = memory_keys(scope) | {
            "version": check_int(version, "version", minimum=1),
            "updated_at": to_micros(self._clock()),
        }
        return await self._write(partial(_restore, params), scope)

    async def clear_working_memory(self, *, scope: Scope) -> int:
        """Delete all versions, and return how many there were."""
        return await self._write(partial(remove_rows, "clear_working_memory", memory_keys(scope)), scope)


@dataclass(frozen=True, slots=True)
class _Change:
    """An update of a working memory; a retried transaction applies it again, to newer fields."""

    patch: dict[str, object]
    strategy: Strategy
    expected_version: int | None
    seen_version: int | None
    epoch: int | None
    erase_epoch: int | None
    check: Check | None

    def apply_to(self, current: WorkingMemory) -> dict[str, object]:
        if self.expected_version not in (None, current.version):
            raise ConflictError(
                f"working memory is at version {current.version}, not {self.expected_version}; read it and "
                "make the change again"
            )
        lost_race = self.seen_version not in (None, current.version)
        strategy: Strategy = "merge" if lost_race else self.strategy
        return apply_patch(current.to_dict(), self.patch, strategy, self.check)


def memory_keys(scope: Scope) -> dict[str, object]:
    """Return the key columns of the thread's working memory, or of the user's own."""
    if scope.thread_id is not None:
        return thread_keys(scope)
    return user_keys(scope) | {"app_id": "", "project_id": "", "thread_id": ""}


def _update(keys: Params, change: _Change, values: Params) -> Transaction[WorkingMemory]:
    _, epochs, rows = yield Step(
        (
            Statement("lock_user", keys),
            Statement("find_epochs", keys),
            Statement("working_memory_versions", {**keys, "limit": 1}),
        )
    )
    check_not_erased(epochs, change.erase_epoch)
    if change.epoch not in (None, epochs[0][0]):
        raise ConflictError("data of this user was deleted meanwhile; working memory was not changed")
    current = _decode(rows[0]) if rows else WorkingMemory()
    return (yield from _write(keys, current, change.apply_to(current), values))


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
    # The present one may be damaged, which is a reason to restore an earlier one.
    current = next(iter(decode_each(_decode, rows)), WorkingMemory(version=rows[0][0]))
    return (yield from _write(params, current, _decode(wanted[0]).to_dict(), values))


def _write(
    keys: Params, current: WorkingMemory, new: dict[str, object], values: Params
) -> Transaction[WorkingMemory]:
    """Write the next version, if the fields differ, and delete the oldest."""
    text = encode_fields(new, "patch")
    if _encode_sorted(new) == _encode_sorted(current.to_dict()):
        raise Unchanged(current)
    version = current.version + 1
    row = {**keys, **values, "version": version, "value": text}
    oldest = {**keys, "oldest": version - MAX_VERSIONS}
    yield Step((Statement("add_working_memory", row), Statement("trim_working_memory", oldest)), last=True)
    return _decode((version, text, values["run_id"], values["updated_at"]))


def _encode_sorted(fields: dict[str, object]) -> str:
    # As JSON, because in Python 1, 1.0 and True are equal.
    return json.dumps(fields, sort_keys=True)


def _decode(row: Row) -> WorkingMemory:
    version, value, run_id, updated_at = row
    with decoding(f"version {version} of the working memory"):
        fields = decode_object(value)
        return WorkingMemory(fields, version=version, updated_at=from_micros(updated_at), run_id=run_id)


def _check_function(check: object) -> Check | None:
    if check is not None and not callable(check):
        raise InvalidArgumentError("check", f"must be a function, not {type(check).__name__}")
    return cast("Check | None", check)
