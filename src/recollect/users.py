"""History, user memory and user state by user and tenant.

`Users` is the async class. The sync functions have the same names and use the connection of `connect(store)`,
or RECOLLECT_DATABASE_URL. `tenant_id` is always required: a positive int, a text, or None. 1 and "1" are the
same tenant. None means system data, a tenant of its own that no other tenant sees.

All of recollect shares this data: `add_message` writes to the user's thread `default`, and the history has
the user and assistant messages of all threads.
"""

import atexit
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

from recollect.concurrency.fork import PerProcess
from recollect.concurrency.sync_face import ClosingFace, PortalHolder, as_twin, sync_method
from recollect.errors import InvalidArgumentError, InvalidRoleError, MemoryNotFoundError, RecollectError
from recollect.messages import Message
from recollect.scope import DEFAULT_THREAD, Scope, TenantId
from recollect.storage.opening import StoreHandle, StoreLocation, database_url
from recollect.validation import check_int, check_tenant, check_text

__all__ = [
    "ConversationMessage",
    "InvalidRoleError",
    "MemoryNotFoundError",
    "RecollectError",
    "SyncUsers",
    "UserMemory",
    "UserState",
    "Users",
    "add_message",
    "clear_all_memory",
    "clear_conversation_history",
    "connect",
    "count_messages",
    "delete_memory",
    "delete_message",
    "delete_user_state",
    "get_all_memory",
    "get_conversation_history",
    "get_memory",
    "get_recent_messages",
    "get_user_state",
    "set_memory",
    "set_user_state",
]

P = ParamSpec("P")
R = TypeVar("R")

StrictTenant: TypeAlias = StrictInt | StrictStr | None
"""A tenant in our models, which keep the caller's type: "1" stays a text."""


class ConversationMessage(BaseModel):
    """A message of the user or the assistant."""

    model_config = ConfigDict(frozen=True)

    id: int
    tenant_id: StrictTenant
    user_id: str
    role: str
    content: str
    created_at: datetime


class UserMemory(BaseModel):
    """A value stored about a user under a key."""

    model_config = ConfigDict(frozen=True)

    id: int
    tenant_id: StrictTenant
    user_id: str
    key: str
    value: dict[str, Any]
    updated_at: datetime


class UserState(BaseModel):
    """The current mode of a user."""

    model_config = ConfigDict(frozen=True)

    tenant_id: StrictTenant
    user_id: str
    mode: str
    updated_at: datetime


class Users:
    """History, user memory and user state on a store."""

    def __init__(self, store: StoreLocation) -> None:
        """Take a store, its URL or a path; `close` leaves a store open that the caller opened."""
        self._handle = StoreHandle(store)
        self._portals = PortalHolder("users")

    @property
    def sync(self) -> "SyncUsers":
        """The same methods for sync code."""
        return SyncUsers(self, self._portals)

    async def close(self) -> None:
        """Close the store, if it was opened here."""
        await self._handle.close()

    async def __aenter__(self) -> Self:
        """Open the store."""
        await self._handle.get()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def add_message(
        self,
        user_id: str,
        role: str,
        content: str,
        tenant_id: TenantId,
        *,
        metadata: dict[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - the message's own name for it
        created_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> int:
        """Append a message to the user's thread `default` and return its integer id.

        The text `id` makes sending it again harmless: then the integer id of the stored message is returned.
        """
        scope = Scope(tenant_id, user_id, DEFAULT_THREAD)
        if role not in ("user", "assistant"):
            raise InvalidRoleError("role", f"must be 'user' or 'assistant', not {role!r:.60}")
        if not check_text(content, "content"):
            raise InvalidArgumentError("content", "must not be empty")
        message = Message(role, content, id=id, metadata=metadata, created_at=created_at)
        store = await self._handle.get()
        return (await store.append_turn([message], scope=scope, expires_at=expires_at))[0].number

    async def get_conversation_history(
        self, user_id: str, tenant_id: TenantId, limit: int | None = None, offset: int = 0
    ) -> list[ConversationMessage]:
        """Return user and assistant messages, newest first; `limit=None` returns all."""
        scope = Scope(tenant_id, user_id)
        messages = await (await self._handle.get()).user_history(limit=limit, offset=offset, scope=scope)
        return [_to_conversation_message(message, scope) for message in messages]

    async def get_recent_messages(
        self, user_id: str, tenant_id: TenantId, count: int = 10
    ) -> list[ConversationMessage]:
        """Return the last user and assistant messages, oldest first."""
        check_int(count, "count")
        return (await self.get_conversation_history(user_id, tenant_id, limit=count))[::-1]

    async def count_messages(self, user_id: str, tenant_id: TenantId) -> int:
        """Count the user and assistant messages."""
        return await (await self._handle.get()).count_user_history(scope=Scope(tenant_id, user_id))

    async def clear_conversation_history(self, user_id: str, tenant_id: TenantId) -> int:
        """Delete all of the user's threads; return how many user and assistant messages they had."""
        return await (await self._handle.get()).clear_history(scope=Scope(tenant_id, user_id))

    async def delete_message(self, message_id: int, tenant_id: TenantId) -> None:
        """Delete a message by its id; a tool call goes with its results and all messages between them."""
        check_int(message_id, "message_id")
        tenant = check_tenant(tenant_id)
        if not await (await self._handle.get()).delete_message_number(message_id, tenant_id=tenant):
            raise MemoryNotFoundError(f"there is no message {message_id}")

    async def set_memory(self, user_id: str, key: str, value: dict[str, Any], tenant_id: TenantId) -> int:
        """Store a value under a key, replacing the old one, and return the entry's id."""
        return await (await self._handle.get()).set_memory(key, value, scope=Scope(tenant_id, user_id))

    async def get_memory(self, user_id: str, key: str, tenant_id: TenantId) -> dict[str, Any] | None:
        """Return the value under a key, or None."""
        entry = await (await self._handle.get()).get_memory(key, scope=Scope(tenant_id, user_id))
        return None if entry is None else entry.value

    async def get_all_memory(self, user_id: str, tenant_id: TenantId) -> list[UserMemory]:
        """Return all values stored about a user, by key."""
        scope = Scope(tenant_id, user_id)
        return [
            UserMemory(
                id=entry.number,
                tenant_id=tenant_id,
                user_id=user_id,
                key=entry.key,
                value=entry.value,
                updated_at=entry.updated_at,
            )
            for entry in await (await self._handle.get()).list_memory(scope=scope)
        ]

    async def delete_memory(self, user_id: str, key: str, tenant_id: TenantId) -> None:
        """Delete the value under a key."""
        if not await (await self._handle.get()).delete_memory(key, scope=Scope(tenant_id, user_id)):
            raise MemoryNotFoundError(f"user {user_id!r} has no memory {key!r}")

    async def clear_all_memory(self, user_id: str, tenant_id: TenantId) -> int:
        """Delete all values stored about a user and return how many there were."""
        return await (await self._handle.get()).clear_memory(scope=Scope(tenant_id, user_id))

    async def set_user_state(self, user_id: str, mode: str, tenant_id: TenantId) -> None:
        """Set the user's mode."""
        await (await self._handle.get()).set_state(mode, scope=Scope(tenant_id, user_id))

    async def get_user_state(self, user_id: str, tenant_id: TenantId) -> UserState | None:
        """Return the user's mode and when it was set, or None."""
        entry = await (await self._handle.get()).get_state(scope=Scope(tenant_id, user_id))
        if entry is None:
            return None
        return UserState(tenant_id=tenant_id, user_id=user_id, mode=entry.mode, updated_at=entry.updated_at)

    async def delete_user_state(self, user_id: str, tenant_id: TenantId) -> None:
        """Delete the user's mode."""
        if not await (await self._handle.get()).delete_state(scope=Scope(tenant_id, user_id)):
            raise MemoryNotFoundError(f"user {user_id!r} has no state")


def _to_conversation_message(message: Message, scope: Scope) -> ConversationMessage:
    return ConversationMessage(
        id=message.number or 0,
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        role=message.role,
        content=message.text,
        created_at=message.created_at,
    )


class SyncUsers(ClosingFace[Users]):
    """The methods of `Users` for sync code: `users.sync`, or what `connect` returns."""

    add_message = sync_method(Users.add_message)
    get_conversation_history = sync_method(Users.get_conversation_history)
    get_recent_messages = sync_method(Users.get_recent_messages)
    count_messages = sync_method(Users.count_messages)
    clear_conversation_history = sync_method(Users.clear_conversation_history)
    delete_message = sync_method(Users.delete_message)
    set_memory = sync_method(Users.set_memory)
    get_memory = sync_method(Users.get_memory)
    get_all_memory = sync_method(Users.get_all_memory)
    delete_memory = sync_method(Users.delete_memory)
    clear_all_memory = sync_method(Users.clear_all_memory)
    set_user_state = sync_method(Users.set_user_state)
    get_user_state = sync_method(Users.get_user_state)
    delete_user_state = sync_method(Users.delete_user_state)


def _connect(store: str | os.PathLike[str] | None) -> SyncUsers:
    """Open a store now, so that a wrong URL raises here; once closed, it stays closed."""
    portals = PortalHolder("connection", advice="call connect() again", renews=False)
    connection = SyncUsers(Users(database_url(store)), portals)
    try:
        connection.call(Users.__aenter__)
    except BaseException:
        portals.close()
        raise
    return connection


class _SharedConnection:
    """The connection that the sync functions of this module share."""

    def __init__(self) -> None:
        self._connection: SyncUsers | None = None
        self._lock = PerProcess(threading.Lock)

    def get(self) -> SyncUsers:
        with self._lock.value:
            if self._connection is None:
                self._connection = _connect(None)
            return self._connection

    def replace(self, connection: SyncUsers | None) -> None:
        with self._lock.value:
            old, self._connection = self._connection, connection
        if old is not None:
            old.close()


_shared = _SharedConnection()
atexit.register(_shared.replace, None)


def connect(store: str | os.PathLike[str] | None = None) -> SyncUsers:
    """Open the store that the functions of this module use from now on, and close the previous one.

    `store` is a URL or a path; the default is the environment variable RECOLLECT_DATABASE_URL. If that is
    set, you need not call this: the first call of a function connects.
    """
    connection = _connect(store)
    _shared.replace(connection)
    return connection


def _make_function(method: Callable[Concatenate[Users, P], Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return the sync function that calls a method on the shared connection."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _shared.get().call(method, *args, **kwargs)

    as_twin(call, method)
    signature = inspect.signature(method)
    own = [parameter for name, parameter in signature.parameters.items() if name != "self"]
    setattr(call, "__signature__", signature.replace(parameters=own))  # noqa: B010 - unknown to the type
    call.__qualname__ = call.__name__
    return call


add_message = _make_function(Users.add_message)
get_conversation_history = _make_function(Users.get_conversation_history)
get_recent_messages = _make_function(Users.get_recent_messages)
count_messages = _make_function(Users.count_messages)
clear_conversation_history = _make_function(Users.clear_conversation_history)
delete_message = _make_function(Users.delete_message)
set_memory = _make_function(Users.set_memory)
get_memory = _make_function(Users.get_memory)
get_all_memory = _make_function(Users.get_all_memory)
delete_memory = _make_function(Users.delete_memory)
clear_all_memory = _make_function(Users.clear_all_memory)
set_user_state = _make_function(Users.set_user_state)
get_user_state = _make_function(Users.get_user_state)
delete_user_state = _make_function(Users.delete_user_state)
