"""What every store must do, as tests that run on any engine; `StoreContract` says how to use them."""

from recollect.testing.contract.bad_input import BadInputContract
from recollect.testing.contract.clock import ScriptedClock
from recollect.testing.contract.epochs import EpochsContract
from recollect.testing.contract.erase import EraseContract
from recollect.testing.contract.events import EventsContract
from recollect.testing.contract.history import HistoryContract
from recollect.testing.contract.hostile_lines import HostileLinesContract
from recollect.testing.contract.search_rows import SearchRowsContract
from recollect.testing.contract.suite import StoreContract
from recollect.testing.contract.threads import ThreadsContract
from recollect.testing.contract.tool_units import ToolShapesContract, ToolUnitsContract
from recollect.testing.contract.transfer import MergeContract, TransferContract
from recollect.testing.contract.turns import TurnsContract
from recollect.testing.contract.user_memory import UserMemoryContract
from recollect.testing.contract.user_state import UserStateContract
from recollect.testing.contract.vectors import VectorsContract
from recollect.testing.contract.working_memory import WorkingMemoryContract, WorkingMemoryVersionsContract

__all__ = [
    "BadInputContract",
    "EpochsContract",
    "EraseContract",
    "EventsContract",
    "HistoryContract",
    "HostileLinesContract",
    "MergeContract",
    "ScriptedClock",
    "SearchRowsContract",
    "StoreContract",
    "ThreadsContract",
    "ToolShapesContract",
    "ToolUnitsContract",
    "TransferContract",
    "TurnsContract",
    "UserMemoryContract",
    "UserStateContract",
    "VectorsContract",
    "WorkingMemoryContract",
    "WorkingMemoryVersionsContract",
]
