"""The whole contract of a store in one class."""

from recollect.testing.contract.bad_input import BadInputContract
from recollect.testing.contract.epochs import EpochsContract
from recollect.testing.contract.erase import EraseContract
from recollect.testing.contract.events import EventsContract
from recollect.testing.contract.history import HistoryContract
from recollect.testing.contract.hostile_lines import HostileLinesContract
from recollect.testing.contract.search_rows import SearchRowsContract
from recollect.testing.contract.threads import ThreadsContract
from recollect.testing.contract.tool_units import ToolShapesContract, ToolUnitsContract
from recollect.testing.contract.transfer import MergeContract, TransferContract
from recollect.testing.contract.turns import TurnsContract
from recollect.testing.contract.user_memory import UserMemoryContract
from recollect.testing.contract.user_state import UserStateContract
from recollect.testing.contract.vectors import VectorsContract
from recollect.testing.contract.working_memory import WorkingMemoryContract, WorkingMemoryVersionsContract


class StoreContract(
    TurnsContract,
    HistoryContract,
    ToolUnitsContract,
    ToolShapesContract,
    ThreadsContract,
    SearchRowsContract,
    VectorsContract,
    UserMemoryContract,
    UserStateContract,
    WorkingMemoryContract,
    WorkingMemoryVersionsContract,
    EventsContract,
    EpochsContract,
    EraseContract,
    TransferContract,
    MergeContract,
    HostileLinesContract,
    BadInputContract,
):
    """Everything that recollect expects of a store, to be run on an engine of your own.

    Write a test module with two fixtures and one class, in a project that has pytest and anyio:

        pytest.register_assert_rewrite("recollect.testing.contract")  # before the import below

        from recollect import Store
        from recollect.testing.contract import ScriptedClock, StoreContract

        @pytest.fixture
        def clock() -> ScriptedClock:
            return ScriptedClock()

        @pytest.fixture
        async def store(clock: ScriptedClock) -> AsyncGenerator[Store]:
            async with Store(MyEngine(...), clock=clock) as store:  # an empty database for each test
                yield store

        class TestStoreContract(StoreContract):
            pass

    The first line makes pytest explain failures. Each part of the contract is a class of its own, so that an
    engine that is still growing can take them one by one.
    """
