"""Erasing a user: every row of every kind, with a proof."""

import asyncio
from functools import partial

from recollect.errors import EraseIncompleteError
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Results, Statement, Step, Transaction
from recollect.storage.records import EraseReport
from recollect.storage.rows import user_keys
from recollect.storage.users import draw_number

KINDS = ("vectors", "messages", "threads", "user_memory", "user_state", "working_memory", "events")
"""The kinds of rows a user can have; each has `count_…` and `delete_…` statements."""

_WITH_BOOKKEEPING = (*KINDS, "users")


class Erasure(StoreCore):
    """Forgetting users for good."""

    async def erase(self, *, scope: Scope) -> EraseReport:
        """Remove everything about the user, in all threads, apps and projects.

        Before it commits, a second look at every table makes sure that nothing is left; if something
        were, all is rolled back and `EraseIncompleteError` raised. The epoch in the report is higher than
        any the user had, so that late work on what is gone cannot come back.
        """
        task = asyncio.ensure_future(self._erase_for_good(scope))
        task.add_done_callback(_look_at)
        return await asyncio.shield(task)  # else a cancelled caller would leave traces in the files

    async def _erase_for_good(self, scope: Scope) -> EraseReport:
        report = await self._write(partial(_erase, user_keys(scope)), scope, heavy=True)
        if report.total:
            await self._engine.purge()
        return report


def _look_at(task: asyncio.Task[EraseReport]) -> None:
    if not task.cancelled():
        task.exception()  # so that nobody misses it when the caller was cancelled


def _erase(keys: Params) -> Transaction[EraseReport]:
    yield Step((Statement("lock_user", keys),))
    before = _counted((yield _count_all(keys)))
    epoch = yield from draw_number()
    yield Step([Statement(f"delete_{kind}", keys) for kind in _WITH_BOOKKEEPING])
    left = {kind: count for kind, count in _counted((yield _count_all(keys))).items() if count}
    if left:
        raise EraseIncompleteError(f"rows were left after erasing ({left}); nothing was removed")
    return EraseReport({kind: before[kind] for kind in KINDS}, epoch)


def _count_all(keys: Params) -> Step:
    return Step([Statement(f"count_{kind}", keys) for kind in _WITH_BOOKKEEPING])


def _counted(results: Results) -> dict[str, int]:
    return {kind: rows[0][0] for kind, rows in zip(_WITH_BOOKKEEPING, results, strict=True)}
