"""`Memory` for sync code."""

from recollect.concurrency.sync_face import ClosingFace, sync_method
from recollect.memory.memory import Memory


class SyncMemory(ClosingFace[Memory]):
    """The methods of `Memory` for sync code: `memory.sync`."""

    get_messages = sync_method(Memory.get_messages)
    remember_messages = sync_method(Memory.remember_messages)
    save_messages = sync_method(Memory.save_messages)
    add_message = sync_method(Memory.add_message)
    delete_messages = sync_method(Memory.delete_messages)
    create_thread = sync_method(Memory.create_thread)
    save_thread = sync_method(Memory.save_thread)
    update_thread = sync_method(Memory.update_thread)
    get_thread_by_id = sync_method(Memory.get_thread_by_id)
    list_threads = sync_method(Memory.list_threads)
    delete_thread = sync_method(Memory.delete_thread)
    query = sync_method(Memory.query)
    get_working_memory = sync_method(Memory.get_working_memory)
    update_working_memory = sync_method(Memory.update_working_memory)
    working_memory_history = sync_method(Memory.working_memory_history)
    restore_working_memory = sync_method(Memory.restore_working_memory)
    clear_working_memory = sync_method(Memory.clear_working_memory)
    ping = sync_method(Memory.ping)
    backlog = sync_method(Memory.backlog)
    prepare = sync_method(Memory.prepare)
    settled = sync_method(Memory.settled)
    reindex = sync_method(Memory.reindex)
