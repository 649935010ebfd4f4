"""`UserStateGuard`: stops runs of users whose state says so, such as `halted`."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.messages import Message
from recollect.pipeline.context import RunContext
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.validation import check_id, check_list


class UserStateGuard(MemoryProcessor):
    """Stops a run if the user's state, set by `users.set_user_state`, is one of some modes.

    It is the one guard that reads the store. If the store cannot be read the run fails: nobody is answered
    whose state is not known.
    """

    id = "user-state"
    blocks_only: bool = True
    observes: ClassVar[bool] = False

    def __init__(
        self,
        store: StoreLocation | StoreHandle,
        *,
        modes: Sequence[str] = ("halted",),
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, the modes that stop a run, and the owner's ids."""
        super().__init__(store, **owner)
        self._modes = frozenset(check_id(mode, "modes") for mode in check_list(modes, "modes"))

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stop the run of a user in one of the modes; a run without a user passes."""
        store, scope = await self._open(ctx)
        state = None if scope is None else await store.get_state(scope=scope)
        if state is not None and state.mode in self._modes:
            ctx.abort(f"this user is {state.mode}", metadata={"mode": state.mode})
        return messages
