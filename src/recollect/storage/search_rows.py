"""Search rows: what search reads of a user's messages."""

from functools import partial

from recollect.checks import check_int
from recollect.scope import Scope
from recollect.storage.core import StoreCore
from recollect.storage.engine import query
from recollect.storage.records import SearchRow
from recollect.storage.rows import user_keys


class SearchRows(StoreCore):
    """The search rows of a user's messages; they come and go with the messages."""

    async def search_rows(self, *, after: int = 0, limit: int | None = None, scope: Scope) -> list[SearchRow]:
        """Return the user's search rows with a number above `after`, in order of their numbers."""
        if limit is not None:
            check_int(limit, "limit")
        params = user_keys(scope) | {"after": check_int(after, "after"), "limit": limit}
        rows = await self._read(partial(query, "search_rows_from", params, last=True), scope, heavy=True)
        return [SearchRow(*row) for row in rows]
