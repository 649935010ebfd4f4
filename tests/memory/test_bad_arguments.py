"""A memory that is given something wrong says so at once, and names the argument."""

from typing import Any

import pytest

from recollect import PER_CALL, InvalidArgumentError, Memory, Message, Processor

CONSTRUCTORS: dict[str, tuple[dict[str, Any], str]] = {
    "an empty path": ({"store": ""}, "store"),
    "a number for a path": ({"store": 5}, "store"),
    "an empty user": ({"resource_id": ""}, "resource_id"),
    "a number for a user": ({"resource_id": 0}, "resource_id"),
    "a user under two names": ({"user_id": "ada", "resource_id": "ada"}, "user_id"),
    "an empty tenant": ({"tenant_id": ""}, "tenant_id"),
    "bytes for a tenant": ({"tenant_id": b"acme"}, "tenant_id"),
    "no tenant": ({"tenant_id": 0}, "tenant_id"),
    "threads of nobody": ({"store": "unused.db", "threads": ["a"]}, "user_id"),
    "threads of no tenant": ({"tenant_id": PER_CALL, "threads": ["a"]}, "tenant_id"),
    "an empty thread": ({"thread_id": ""}, "thread_id"),
    "a text for a number": ({"last_messages": "x"}, "last_messages"),
    "a negative number": ({"last_messages": -1}, "last_messages"),
    "a negative number of other messages": ({"other_threads": -1}, "other_threads"),
    "a flag for a number": ({"other_threads": True}, "other_threads"),
    "a text for threads": ({"threads": "abc"}, "threads"),
    "a number for a thread": ({"threads": [1]}, "threads"),
    "an object for a processor": ({"processors": [object()]}, "processors"),
    "a new processor for an old one": ({"processors": [Processor()]}, "processors"),
    "a processor for a list of them": ({"processors": Processor()}, "processors"),
}


@pytest.mark.parametrize(("options", "argument"), CONSTRUCTORS.values(), ids=CONSTRUCTORS.keys())
def test_memory_is_refused_when_an_argument_is_wrong(options: dict[str, Any], argument: str) -> None:
    """Nothing wrong silently becomes a memory of somebody else's, or fails in the first run."""
    with pytest.raises(InvalidArgumentError) as caught:
        Memory(**options)
    assert caught.value.argument == argument


MESSAGE = Message("user", "x")
CALLS: dict[str, tuple[str, Any, str]] = {
    "saving one message": ("save_messages", MESSAGE, "messages"),
    "saving a text": ("save_messages", "abc", "messages"),
    "saving nothing": ("save_messages", None, "messages"),
    "saving a dict": ("save_messages", {"role": "user"}, "messages"),
    "deleting by one id": ("delete_messages", "some-id", "ids_or_messages"),
    "deleting one message": ("delete_messages", MESSAGE, "ids_or_messages"),
    "deleting nothing": ("delete_messages", [None], "ids_or_messages"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "value", "argument"), CALLS.values(), ids=CALLS.keys())
async def test_call_is_refused_when_it_is_given_no_list(method: str, value: object, argument: str) -> None:
    """One thing is no list of its letters, and no list at all."""
    async with Memory() as memory:
        await memory.save_messages([Message("user", "kept", id="s")])
        with pytest.raises(InvalidArgumentError) as caught:
            await getattr(memory, method)(value)
        assert caught.value.argument == argument
        assert len(await memory.get_messages()) == 1


@pytest.mark.anyio
async def test_last_messages_may_be_a_flag() -> None:
    """The words for the default number, for none and for all."""
    for value, count in ((True, 10), (False, 0), (None, 12), (3, 3)):
        async with Memory(last_messages=value) as memory:
            await memory.save_messages([Message("user", str(number)) for number in range(12)])
            assert len(await memory.remember_messages()) == count
