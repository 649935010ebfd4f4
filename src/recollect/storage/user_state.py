"""User state: the one mode that a user is in."""

from functools import partial

from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import Params, Statement, Step, Transaction, query
from recollect.storage.records import StateEntry
from recollect.storage.rows import from_micros, to_micros, user_keys
from recollect.storage.users import remove
from recollect.validation import check_id


class UserStates(StoreCore):
    """The modes of users, over all apps and projects."""

    async def set_state(self, mode: str, *, scope: Scope) -> None:
        """Put the user into a mode."""
        values = {"mode": check_id(mode, "mode"), "updated_at": to_micros(self._clock())}
        await self._write(partial(_set_state, user_keys(scope) | values), scope)

    async def get_state(self, *, scope: Scope) -> StateEntry | None:
        """Return the user's mode, or None."""
        rows = await self._read(partial(query, "get_state", user_keys(scope), last=True), scope)
        return StateEntry(rows[0][0], from_micros(rows[0][1])) if rows else None

    async def delete_state(self, *, scope: Scope) -> bool:
        """Forget the user's mode; say if there was one."""
        return await self._write(partial(remove, "delete_user_state", user_keys(scope)), scope) > 0


def _set_state(params: Params) -> Transaction[None]:
    yield Step((Statement("lock_user", params), Statement("set_state", params)), last=True)
