"""A run as a stream of events, for async and for sync code.

The run has its own task. It may read the model a few chunks ahead of its reader. Before anything else it
waits until the reader has taken all events and asks for more. If the reader stops, the task is cancelled and
closes what it had open, in order and in one place.
"""

import asyncio
import concurrent.futures
import queue
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from recollect.agent.result import Event, Result
from recollect.agent.run import AgentRun
from recollect.concurrency.portal import Portal
from recollect.concurrency.tasks import retrieve_exception
from recollect.concurrency.threads import call_in_loop
from recollect.errors import RecollectError
from recollect.messages import Message
from recollect.trace import Trace

if TYPE_CHECKING:
    from recollect.pipeline.context import TripWire

_running: set[asyncio.Task[None]] = set()

Item: TypeAlias = Event | BaseException | None
"""An item of the queue to the reader: an event, an error, or None for the end."""


class RunStream:
    """A run as a stream of events: iterate over it, or enter it with `async with` first."""

    def __init__(
        self, run: AgentRun, *, raise_on_tripwire: bool, note: Callable[[list[Message]], None]
    ) -> None:
        """Prepare the run; it starts when the first event is read."""
        self._run = run
        self._raise_on_tripwire = raise_on_tripwire
        self._note = note
        self._noted: list[Message] = []
        self._tripwire: TripWire | None = None
        self._has_ended = False
        self._handed_out: Event | None = None
        self._handover = _Handover()
        self._task: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.state.run_id

    @property
    def trace(self) -> Trace:
        """What each processor has done so far."""
        return self._run.state.trace

    @property
    def prompt(self) -> list[Message]:
        """What the model was last shown in this run."""
        return self._run.result.prompt

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        self.confirm()
        if self._tripwire is not None:
            tripwire, self._tripwire, self._has_ended = self._tripwire, None, True
            raise tripwire
        if self._has_ended:
            raise StopAsyncIteration
        if self._task is None:
            self._task = self._begin()
        try:
            item = await self._handover.take()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        finally:
            self._note_prompt()
        if type(item) is Event:
            self._handed_out = item
            if self._raise_on_tripwire:
                self._tripwire = item.tripwire
            return item
        was_left, self._has_ended = self._has_ended, True
        if isinstance(item, BaseException) and not was_left:
            raise item
        raise StopAsyncIteration

    async def next_event(self) -> Event | None:
        """Return the next event, or None at the end."""
        return await anext(self, None)

    async def result(self) -> Result:
        """Run to the end and return the result."""
        async for _ in self:
            pass
        return self._run.result

    async def aclose(self) -> None:
        """Abort the run: the prompt and what was received are kept, unless `save_partial` is False."""
        self.confirm()
        await self._leave()

    async def _leave(self) -> None:
        self._has_ended = True
        self._handover.leave()
        if self._task is not None and not self._task.done():
            _cancel(self._task)
            await asyncio.wait([self._task])
        self._handover.give(None)  # for another task that still waits for an event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            self.confirm()
        await self._leave()

    def __del__(self) -> None:
        """End a run that nobody reads any more; the garbage collector may call this in any thread."""
        if self._task is not None and not self._task.done():
            self.confirm()
            self._handover.leave()
            call_in_loop(self._task.get_loop(), _cancel, self._task)

    def _begin(self) -> asyncio.Task[None]:
        # The task must not refer to this object, or it would never be collected.
        self._run.wait_for_reader = self._handover.wait_until_asked
        serving = _serve(self._run.events(), self._handover)
        task = asyncio.get_running_loop().create_task(serving)
        # A loop refers to its tasks only weakly: in a cycle with the stream it could be collected half-way.
        _running.add(task)
        task.add_done_callback(_running.discard)
        task.add_done_callback(retrieve_exception)  # the reader has it
        return task

    def confirm(self) -> None:
        """Count the last event as received: its reader has asked for the next one, or has left by itself.

        A reader that is cancelled with an event in its hands may never have passed it on.
        """
        event, self._handed_out = self._handed_out, None
        if event is None:
            return
        if event.type == "text":
            self._run.delivery.characters += len(event.text)
        elif (part := event.tool_call or event.tool_result) is not None:
            self._run.delivery.tools.append(part)

    def _note_prompt(self) -> None:
        if self._noted is not self.prompt:
            self._noted = self.prompt
            self._note(self._noted)


class _Handover:
    """The queue between the task of a run and its reader; each side may wait for the other."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._run: asyncio.Future[None] | None = None
        self._is_left = False

    async def take(self) -> Item:
        """Return the next item; called by the reader."""
        while not self._items:
            if _is_waiting(self._reader):
                raise RecollectError("two tasks read this stream at once; let one of them read")
            self._reader = asyncio.get_running_loop().create_future()
            _wake(self._run)
            await self._reader
        return self._items.popleft()

    def give(self, item: Item) -> None:
        """Append an item; called by the run."""
        self._items.append(item)
        _wake(self._reader)

    def leave(self) -> None:
        """Say that nobody will ask any more, in case a model or a guard swallows the cancellation."""
        self._is_left = True

    async def wait_until_asked(self) -> None:
        """Wait until the reader has taken all items and asks for more."""
        while self._is_left or self._items or not _is_waiting(self._reader):
            if self._is_left:
                raise asyncio.CancelledError
            self._run = asyncio.get_running_loop().create_future()
            await self._run


def _is_waiting(future: asyncio.Future[None] | None) -> bool:
    return future is not None and not future.done()


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


async def _serve(events: AsyncGenerator[Event], handover: _Handover) -> None:
    """Put the events of a run into the queue; the last item is None or the error."""
    end: Item = None
    try:
        async with aclosing(events):
            async for event in events:
                handover.give(event)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - it is raised to the reader
        end = error
    except BaseException as error:
        end = error
        raise
    finally:
        handover.give(end)


def _cancel(task: asyncio.Task[None]) -> None:
    if not task.cancelling():  # a second time would cancel the save of a partial turn
        task.cancel()


class SyncStream:
    """A stream for sync code; its task runs on only when the next event is requested."""

    def __init__(self, portal: Portal, stream: RunStream) -> None:
        """Prepare the stream; it starts when the first event is read."""
        self._portal = portal
        self._stream = stream
        self._events: queue.SimpleQueue[Item] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events; leaving early aborts the run."""
        wanted = self._portal.run(_new_semaphore())
        task = self._portal.start(self._serve(wanted))
        try:
            while True:
                self._portal.call(wanted.release)
                event = self._events.get()
                if event is None:
                    return
                if isinstance(event, BaseException):
                    raise event
                self._stream.confirm()
                yield event
        finally:
            task.cancel()
            if not self._portal.is_current:  # the garbage collector may do this in the portal's own thread
                concurrent.futures.wait([task])

    async def _serve(self, wanted: asyncio.Semaphore) -> None:
        # The reader waits for the end, however the task ends.
        end: Item = RecollectError("the run was cancelled, or its agent closed, before it had ended")
        try:
            async with self._stream as events:
                await wanted.acquire()
                async for event in events:
                    self._events.put(event)
                    await wanted.acquire()
            end = None
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - it is raised to the reader
            end = error
        finally:
            self._events.put(end)


async def _new_semaphore() -> asyncio.Semaphore:
    return asyncio.Semaphore(0)
