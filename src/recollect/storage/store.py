"""The store: one class for everything that recollect stores.

`Store` inherits one class for each kind of data, each from a module of its own. Every method takes the
scope it works on, keyword-only and required. Only `delete_message_number` and `list_users` name no user:
they take a tenant. `ping`, `purge` and `close` are about the whole database.
"""

from recollect.storage.deletion import Deletion
from recollect.storage.events import Events
from recollect.storage.export import Transfer
from recollect.storage.history import History
from recollect.storage.search_rows import SearchRows
from recollect.storage.threads import Threads
from recollect.storage.turns import Turns
from recollect.storage.users import Erasure, UserEpochs, UserMemories, UserStates
from recollect.storage.working_memory import WorkingMemories


class Store(
    Turns,
    History,
    Deletion,
    Threads,
    SearchRows,
    UserMemories,
    UserStates,
    WorkingMemories,
    Events,
    UserEpochs,
    Transfer,
    Erasure,
):
    """History, memory, state, working memory and events of the users of many tenants, on one database.

    Made by `open_store`; belongs to the event loop and process that opened it.
    """
