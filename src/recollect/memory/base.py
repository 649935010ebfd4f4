"""What processors of memory share: where memory is kept, and whose memory a run is about."""

from typing import ClassVar

from recollect.memory.memory_scope import resolve_scope
from recollect.pipeline.processor import Processor, RunContext, RunIds
from recollect.scope import UNSET, Scope, Unset
from recollect.storage.handle import StoreHandle
from recollect.storage.store import Store


class MemoryProcessor(Processor):
    """The base of processors that read or write memory; they neither edit nor block what others say."""

    observes: ClassVar[bool] = True

    def __init__(
        self,
        storage: Store | StoreHandle | str,
        *,
        tenant_id: int | Unset | None = UNSET,
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Take a store or its address, and ids for runs that are given none."""
        self._handle = storage if isinstance(storage, StoreHandle) else StoreHandle(storage)
        self._defaults = RunIds(tenant_id, resource_id, thread_id)

    async def _memory_of(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        """Return the store, and whose memory the run is about: None where nobody is named."""
        store = await self._handle.get()
        return store, resolve_scope(ctx.ids, self._defaults, store)
