"""Working memory: the user's fields go in before everything else, and learn from the turn behind guards."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, Unpack, cast, get_args

from recollect.concurrency.tasks import BackgroundTasks
from recollect.errors import (
    ConflictError,
    InvalidArgumentError,
    ModelUnavailableError,
    RecollectError,
    StorageError,
)
from recollect.memory.base import MemoryProcessor, OwnerIds
from recollect.memory.extraction import (
    ExtractorFunction,
    ask_model,
    call_function,
    make_tool,
    talk_of,
    tool_patches,
)
from recollect.memory.fields import Shape, Template, read_schema
from recollect.messages import Message, frame_parts
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.scope import Scope
from recollect.storage.opening import Place, StoreHandle
from recollect.storage.store import Store
from recollect.text.quoting import fence
from recollect.validation import check_choice, check_flag, check_model
from recollect.working_memory import STRATEGIES, Strategy, WorkingMemory, is_padding

_log = logging.getLogger("recollect")

Extent: TypeAlias = Literal["resource", "thread"]
"""Whose working memory it is: the user's, or that of each thread."""

Moment: TypeAlias = Literal["before", "after", "never"]
"""When a turn is learned from: before the run ends, after the answer was returned, or not at all."""

_OPTIONS = ("template", "schema", "update_strategy", "scope", "extractor", "extract", "tool", "read_only")


@dataclass(slots=True)
class _Lesson:
    """What a turn may change: what the model noted by the tool, and what was said since when."""

    patches: list[dict[str, object]]
    talk: str
    epoch: int | None = None


class WorkingMemoryProcessor(MemoryProcessor):
    """Shows the model what is known of the user, and keeps it up to date.

    The fields are those of a `template` or a `schema`. After a turn one question to the model, or to the
    `extractor`, says what has changed. With `tool=True` the model is given a tool instead.
    """

    id = "working-memory"
    writes_memory: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - one for each part, all by keyword
        self,
        store: Place | StoreHandle,
        *,
        template: str | None = None,
        schema: object = None,
        update_strategy: Strategy = "merge",
        scope: Extent = "resource",
        extractor: object | ExtractorFunction | None = None,
        extract: Moment | None = None,
        tool: bool = False,
        read_only: bool = False,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, the fields, how they are kept, and whose memory it is.

        `extractor` is a model or a function of the talk and the present fields; without one the run's model
        is asked. `extract` is "before" unless there is the tool; "after" does not let the run wait.
        """
        super().__init__(store, **owner)
        self.shape = _shape(template, schema)
        self._strategy: Strategy = check_choice(update_strategy, "update_strategy", STRATEGIES)
        self._extent: Extent = check_choice(scope, "scope", get_args(Extent))
        moment = extract if extract is not None else ("never" if tool else "before")
        self._moment: Moment = check_choice(moment, "extract", get_args(Moment))
        self._extractor = _checked_extractor(extractor)
        self._read_only = check_flag(read_only, "read_only")
        has_tool = check_flag(tool, "tool") and not read_only
        self._tools = [make_tool(self.shape)] if has_tool else []
        self._background = BackgroundTasks()

    def get_tools(self) -> list[Callable[..., str]]:
        """Return the tool by which the model changes working memory, if it is to have one."""
        return [*self._tools]

    def place_of(self, scope: Scope) -> Scope:
        """Return the scope of the working memory that belongs to a run: the user's or the thread's."""
        return scope if self._extent == "thread" else scope.with_thread(None)

    async def settled(self) -> None:
        """Wait until all turns that are learned from after their answers have been."""
        await self._background.join()

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Put one fenced message before everything else; a failed read goes on without it."""
        try:
            store, place = await self._place_of_run(ctx)
            known = WorkingMemory() if place is None else await store.get_working_memory(scope=place)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        text = self.shape.render(known)
        if not text:
            return messages
        about = "this user" if self._extent == "resource" else "this conversation"
        known_fields = Message(
            "system",
            frame_parts(fence(f"what is known about {about}", [text])),
            id=f"{ctx.run_id}:working-memory",
            origin="memory",
            kind="working_memory",
        )
        return insert(messages, [known_fields])

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage what the turn, as it stands at this place, may change."""
        lesson = _Lesson(
            tool_patches(messages) if self._tools else [],
            talk_of(messages) if self._moment != "never" and not self._read_only else "",
        )
        self._scope_of(ctx)  # what it raises is the caller's mistake, not a failed write
        if lesson.talk:
            ctx.before_commit(partial(self._pin_epoch, lesson, ctx))
        if lesson.patches or lesson.talk:
            ctx.after_commit(partial(self._keep, lesson, ctx))
        return messages

    async def _pin_epoch(self, lesson: _Lesson, ctx: RunContext) -> None:
        """Hold on to the user's epoch: what is removed from here on must not come back by what is learned."""
        try:
            store, place = await self._place_of_run(ctx)
            lesson.epoch = None if place is None else await store.pin_epoch(scope=place)
        except StorageError as error:
            _report(ctx, error)

    async def _keep(self, lesson: _Lesson, ctx: RunContext) -> None:
        """Write what the model noted, and learn from what was said, now or later."""
        store, place = await self._place_of_run(ctx)
        if place is None:
            return
        for patch in lesson.patches:
            await self._note(patch, store, place, ctx)
        if lesson.epoch is not None:
            learning = self._learn(lesson.talk, lesson.epoch, store, place, ctx)
            if self._moment == "after":
                self._background.start(place, learning)
            else:
                await learning

    async def _note(self, patch: dict[str, object], store: Store, place: Scope, ctx: RunContext) -> None:
        try:
            await store.update_working_memory(patch, run_id=ctx.run_id, check=self.shape.checked, scope=place)
        except InvalidArgumentError as error:
            _report(ctx, error)

    async def _learn(self, talk: str, epoch: int, store: Store, place: Scope, ctx: RunContext) -> None:
        """Ask what has changed and write it; whatever goes wrong, the old fields stay."""
        entry = ctx.trace.entry(ctx.processor_id, "commit")
        try:
            current = await store.get_working_memory(scope=place)
            patch = await self._patch(talk, current.to_dict(), ctx)
            # Models fill in a form with empty lists for what they do not know; null is how a list goes.
            patch = {name: value for name, value in patch.items() if value != []}
            if is_padding(patch):
                entry.notes.append("the extraction found nothing")
                return
            learned = await store.update_working_memory(
                patch,
                strategy=self._strategy,
                expected_version=current.version,
                epoch=epoch,
                run_id=ctx.run_id,
                check=self.shape.checked,
                scope=place,
            )
        except ConflictError:
            entry.notes.append("the extraction was dropped: something of the user was removed meanwhile")
        except ModelUnavailableError as error:
            if self._extractor is None:
                entry.notes.append(f"the extraction was skipped: {error}")
            else:
                _report(ctx, error)
        except Exception as error:  # noqa: BLE001 - a model or a function may raise anything, and the answer is out
            _report(ctx, error)
        else:
            entry.notes.append(f"version {learned.version}")

    async def _patch(self, talk: str, current: dict[str, object], ctx: RunContext) -> dict[str, object]:
        if callable(self._extractor):
            return await call_function(cast("ExtractorFunction", self._extractor), talk, current)
        return await ask_model(self.shape, talk, current, ctx, strategy=self._strategy, model=self._extractor)

    async def _place_of_run(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        store, scope = await self._memory_of(ctx)
        return store, None if scope is None else self.place_of(scope)


def working_memory_options(given: object) -> dict[str, Any] | None:
    """Return what a memory was told of working memory as arguments of the processor; None if it is off."""
    if given is None or given is False:
        return None
    if isinstance(given, str):
        return {"template": given}
    if isinstance(given, type):
        return {"schema": given}
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            "working_memory",
            f"must be a template, a Pydantic model class or a dict of options, not {given!r:.60}",
        )
    options = dict(cast("Mapping[str, Any]", given))
    if unknown := options.keys() - {*_OPTIONS}:
        raise InvalidArgumentError(
            "working_memory", f"{min(map(str, unknown))!r:.60} is not an option; use {', '.join(_OPTIONS)}"
        )
    return options


def _shape(template: str | None, schema: object) -> Shape:
    if (template is None) == (schema is None):
        raise InvalidArgumentError(
            "template" if schema is None else "schema", "give either a template or a schema"
        )
    return read_schema(schema) if template is None else Template(template)


def _checked_extractor(extractor: object) -> object:
    forms = "a model, a model's name or a function"
    return None if extractor is None else check_model(extractor, "extractor", forms, may_be_function=True)


def _report(ctx: RunContext, error: Exception) -> None:
    """Write a failure into the trace and the log; of a foreign error, which may quote talk, only the type."""
    said = str(error) if isinstance(error, RecollectError) else ""
    entry = ctx.trace.entry(ctx.processor_id, "commit")
    entry.error = f"{type(error).__name__}: {said}" if said else type(error).__name__
    _log.warning("%s leaves working memory as it was: %s", ctx.processor_id, entry.error)
