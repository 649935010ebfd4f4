"""The base of every part of the store: the engine, the clock, and the owner.

A store belongs to the event loop and the process that opened it. Used from elsewhere it would
corrupt a file or hang, so each call checks both first.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Self, TypeVar, cast

from recollect.concurrency.fork import OwnerProcess
from recollect.concurrency.tasks import retrieve_exception
from recollect.errors import StoreMisuseError, WrongOwnerError
from recollect.messages import now
from recollect.scope import Scope
from recollect.storage.engine import Params, Row, Statement, StorageEngine, Unchanged, Work
from recollect.storage.rows import app_keys, thread_keys, to_micros, user_keys

T = TypeVar("T")


class StoreCore:
    """Runs transactions on an engine for the parts of the store."""

    def __init__(self, engine: StorageEngine, *, clock: Callable[[], datetime] = now) -> None:
        self._engine = engine
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._process = OwnerProcess()
        self._closing: asyncio.Task[None] | None = None
        self._unattended: set[asyncio.Task[Any]] = set()
        self._has_begun_to_close = False

    @property
    def engine_name(self) -> str:
        """The store's database: `sqlite` or `postgresql`."""
        return self._engine.name

    @property
    def is_in_memory(self) -> bool:
        """Whether the data goes with the process: no other can open it."""
        return self._engine.is_in_memory

    @property
    def clock(self) -> Callable[[], datetime]:
        """The store's clock, by which messages expire."""
        return self._clock

    async def ping(self) -> None:
        """Return if the database answers; raise `StorageError` if not."""
        self._check_owner()
        await self._engine.query(Statement("ping", {}), tenant="")

    async def close(self) -> None:
        """Finish running calls and close; closing twice does nothing."""
        if self._closing is None:
            self._check_owner()
            self._closing = self._loop.create_task(self._close_engine())
        try:
            # Shielded, so that a cancelled caller leaves nothing half-closed.
            await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            # An ending event loop cancels all tasks. One that has not started yet never will.
            if self._closing.cancelling() and not self._has_begun_to_close:
                await self._close_engine()
            raise

    async def _close_engine(self) -> None:
        self._has_begun_to_close = True
        if self._unattended:
            await asyncio.wait(self._unattended)
        await self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run_to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that continues in the background if its caller is cancelled; `close` waits for it."""
        task = self._loop.create_task(work)
        self._unattended.add(task)
        task.add_done_callback(self._unattended.discard)
        task.add_done_callback(retrieve_exception)
        return await asyncio.shield(task)

    def _now(self) -> int:
        """Return the time in microseconds since 1970; the usual clock is read without making a datetime."""
        return time.time_ns() // 1000 if self._clock is now else to_micros(self._clock())

    # Statements that read messages take the time too: they leave out what has expired.

    def _user_keys(self, scope: Scope) -> dict[str, object]:
        return user_keys(scope) | {"now": self._now()}

    def _app_keys(self, scope: Scope) -> dict[str, object]:
        return app_keys(scope) | {"now": self._now()}

    def _thread_keys(self, scope: Scope) -> dict[str, object]:
        keys = thread_keys(scope)
        keys["now"] = self._now()
        return keys

    async def _read(self, work: Work[T], scope: Scope, *, heavy: bool = False) -> T:
        self._check_owner()
        return await self._engine.read(work, tenant=scope.tenant_key, heavy=heavy)

    async def _query(self, name: str, params: Params, *, heavy: bool = False) -> list[Row]:
        """Run one statement that only reads, for the tenant in its values."""
        self._check_owner()
        tenant = cast("str", params["tenant_id"])
        return await self._engine.query(Statement(name, params), tenant=tenant, heavy=heavy)

    async def _write(self, work: Work[T], scope: Scope, *, heavy: bool = False) -> T:
        self._check_owner()
        try:
            return await self._engine.write(work, tenant=scope.tenant_key, heavy=heavy)
        except Unchanged as nothing:
            return cast("T", nothing.value)

    def _check_owner(self) -> None:
        if not self._process.is_current:
            raise WrongOwnerError(
                "this store was opened before the process forked; open another store in the child "
                "(a SQLite file only if it was not open while forking)"
            )
        if self._closing is not None:
            raise StoreMisuseError("this store is closed")
        if asyncio.get_running_loop() is not self._loop:
            raise WrongOwnerError(
                "this store was opened in another event loop; open one store for each loop, or pass the "
                "database URL instead of a store: then each loop opens its own (sync calls have a loop too)"
            )
