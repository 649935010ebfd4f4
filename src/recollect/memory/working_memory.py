"""Working memory: the user's fields go before the prompt, and are updated from the turn after the guards."""

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
    collect_tool_patches,
    format_conversation,
    make_tool,
    split_patch,
)
from recollect.memory.fields import FieldSet, Template, read_schema
from recollect.messages import Message, frame_parts, is_aborted
from recollect.pipeline.context import RunContext
from recollect.pipeline.prompt_order import insert
from recollect.scope import Scope
from recollect.storage.opening import StoreHandle, StoreLocation
from recollect.storage.store import Store
from recollect.text.quoting import fence
from recollect.validation import check_choice, check_flag, check_model
from recollect.working_memory import STRATEGIES, Strategy, WorkingMemory, is_padding

_log = logging.getLogger("recollect")

WorkingMemoryScope: TypeAlias = Literal["resource", "thread"]
"""Whether all threads of a user share one working memory, or each thread has its own."""

ExtractionTime: TypeAlias = Literal["before", "after", "never"]
"""When a model extracts fields from a turn: before the run ends, in the background after it, or never."""

_OPTIONS = ("template", "schema", "update_strategy", "scope", "extractor", "extract", "tool", "read_only")


@dataclass(slots=True)
class _PendingUpdate:
    """What a turn may change: patches of the tool, the text to extract from, and the user's epoch."""

    patches: list[dict[str, object]]
    conversation: str
    epoch: int | None = None


class WorkingMemoryProcessor(MemoryProcessor):
    """Shows the model what is known about the user, and keeps it up to date.

    The fields are those of a `template` or a `schema`. After each turn one request to the model, or to the
    `extractor`, says what has changed. With `tool=True` the model has a tool for that instead.
    """

    id = "working-memory"
    writes_memory: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - one for each part, all by keyword
        self,
        store: StoreLocation | StoreHandle,
        *,
        template: str | None = None,
        schema: object = None,
        update_strategy: Strategy = "merge",
        scope: WorkingMemoryScope = "resource",
        extractor: object | ExtractorFunction | None = None,
        extract: ExtractionTime | None = None,
        tool: bool = False,
        read_only: bool = False,
        **owner: Unpack[OwnerIds],
    ) -> None:
        """Take a store, its URL or a path, the fields, how to update them, and the owner's ids.

        `extractor` is a model, or a function of the conversation and the current fields; the default is the
        run's model. `extract` is "before" by default, "never" with the tool; with "after" the run does not
        wait.
        """
        super().__init__(store, **owner)
        self.fields = _parse_fields(template, schema)
        self._strategy: Strategy = check_choice(update_strategy, "update_strategy", STRATEGIES)
        self._is_per_thread = check_choice(scope, "scope", get_args(WorkingMemoryScope)) == "thread"
        time = extract if extract is not None else ("never" if tool else "before")
        self._extraction_time: ExtractionTime = check_choice(time, "extract", get_args(ExtractionTime))
        self._extractor = _check_extractor(extractor)
        self._read_only = check_flag(read_only, "read_only")
        has_tool = check_flag(tool, "tool") and not read_only
        self._tools = [make_tool(self.fields)] if has_tool else []
        self._background = BackgroundTasks()

    def get_tools(self) -> list[Callable[..., str]]:
        """Return the tool by which the model changes working memory, if `tool` is set."""
        return [*self._tools]

    def get_memory_scope(self, scope: Scope) -> Scope:
        """Return the scope of the working memory of a run: the user's or the thread's."""
        return scope if self._is_per_thread else scope.with_thread(None)

    async def wait_until_idle(self) -> None:
        """Wait for the extractions in the background."""
        await self._background.join()

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Insert one fenced message before everything else; if the read fails, go on without it."""
        try:
            store, scope = await self._open_to_read(ctx)
            scope = None if scope is None else self.get_memory_scope(scope)
            known = WorkingMemory() if scope is None else await store.get_working_memory(scope=scope)
        except StorageError as error:
            ctx.degrade(error)
            return messages
        text = self.fields.render(known)
        if not text:
            return messages
        about = "this conversation" if self._is_per_thread else "this user"
        known_fields = Message(
            "system",
            frame_parts(fence(f"what is known about {about}", [text])),
            id=f"{ctx.run_id}:working-memory",
            origin="memory",
            kind="working_memory",
        )
        return insert(messages, [known_fields])

    async def process_output_result(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Stage what the turn, as the processors before left it, may change; an aborted one: nothing."""
        if is_aborted(messages):
            return messages
        update = _PendingUpdate(
            collect_tool_patches(messages) if self._tools else [],
            format_conversation(messages) if self._extraction_time != "never" and not self._read_only else "",
        )
        self._resolve_scope(ctx)  # what it raises is the caller's mistake, not a failed write
        if update.conversation:
            ctx.before_commit(partial(self._pin_epoch, update, ctx))
        if update.patches or update.conversation:
            ctx.after_commit(partial(self._apply, update, ctx))
        return messages

    async def _pin_epoch(self, update: _PendingUpdate, ctx: RunContext) -> None:
        """Read the user's epoch: the update is dropped if something is deleted after this."""
        try:
            store, scope = await self._open_working_memory(ctx)
            if scope is not None:
                pinned = self._get_pinned(scope, ctx)
                update.epoch = await store.pin_epoch(erase_epoch=pinned, scope=scope)
        except StorageError as error:
            _report_failure(ctx, error)

    async def _apply(self, update: _PendingUpdate, ctx: RunContext) -> None:
        """Write the patches of the tool, and extract from the conversation now or in the background."""
        store, scope = await self._open_working_memory(ctx)
        if scope is None:
            return
        for patch in update.patches:
            await self._apply_patch(patch, store, scope, ctx)
        if update.epoch is not None:
            extraction = self._extract(update.conversation, update.epoch, store, scope, ctx)
            if self._extraction_time == "after":
                self._background.start(scope.key, extraction)
            else:
                await extraction

    async def _apply_patch(
        self, patch: dict[str, object], store: Store, scope: Scope, ctx: RunContext
    ) -> None:
        try:
            await store.update_working_memory(
                patch,
                erase_epoch=self._get_pinned(scope, ctx),
                run_id=ctx.run_id,
                check=self.fields.validate,
                scope=scope,
            )
        except InvalidArgumentError as error:
            _report_failure(ctx, error)

    async def _extract(
        self, conversation: str, epoch: int, store: Store, scope: Scope, ctx: RunContext
    ) -> None:
        """Ask what has changed and write it; after a failure the old fields stay."""
        entry = ctx.trace.entry(ctx.processor_id, "commit")
        try:
            current = await store.get_working_memory(scope=scope)
            patch = await self._ask_extractor(conversation, current.to_dict(), ctx)
            # Models send empty lists for what they do not know; a list is deleted by null.
            patch = {name: value for name, value in patch.items() if value != []}
            if is_padding(patch):
                entry.notes.append("the extraction found nothing")
                return
            valid, problems = split_patch(self.fields, patch, current.to_dict(), self._strategy)
            learned = await store.update_working_memory(
                valid or patch,  # without a valid field the store says what is wrong
                strategy=self._strategy,
                seen_version=current.version,
                epoch=epoch,
                run_id=ctx.run_id,
                check=self.fields.validate,
                scope=scope,
            )
        except ConflictError:
            entry.notes.append("the extraction was dropped: data of the user was deleted meanwhile")
        except ModelUnavailableError as error:
            if self._extractor is None:
                entry.notes.append(f"the extraction was skipped: {error}")
            else:
                _report_failure(ctx, error)
        except Exception as error:  # noqa: BLE001 - a model or a function may raise anything, and the answer is released
            _report_failure(ctx, error)
        else:
            entry.notes += [f"a field was left out: {problem}" for problem in problems]
            entry.notes.append(f"version {learned.version}")

    async def _ask_extractor(
        self, conversation: str, current: dict[str, object], ctx: RunContext
    ) -> dict[str, object]:
        if callable(self._extractor):
            return await call_function(cast("ExtractorFunction", self._extractor), conversation, current)
        return await ask_model(
            self.fields, conversation, current, ctx, strategy=self._strategy, model=self._extractor
        )

    async def _open_working_memory(self, ctx: RunContext) -> tuple[Store, Scope | None]:
        store, scope = await self._open(ctx)
        return store, None if scope is None else self.get_memory_scope(scope)


def parse_working_memory_options(given: object) -> dict[str, Any] | None:
    """Return the `working_memory` of a `Memory` as arguments of the processor; None if it is off."""
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


def _parse_fields(template: str | None, schema: object) -> FieldSet:
    if (template is None) == (schema is None):
        raise InvalidArgumentError(
            "template" if schema is None else "schema",
            "give either a template or a schema",
        )
    return read_schema(schema) if template is None else Template(template)


def _check_extractor(extractor: object) -> object:
    forms = "a model, a model's name or a function"
    return None if extractor is None else check_model(extractor, "extractor", forms, may_be_function=True)


def _report_failure(ctx: RunContext, error: Exception) -> None:
    """Write a failure to the trace and the log; other people's errors may quote messages: only their type."""
    said = str(error) if isinstance(error, RecollectError) else ""
    entry = ctx.trace.entry(ctx.processor_id, "commit")
    entry.error = f"{type(error).__name__}: {said}" if said else type(error).__name__
    _log.warning("%s leaves working memory as it was: %s", ctx.processor_id, entry.error)
