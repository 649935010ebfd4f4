"""The tool with which a model changes curated memory: checked when called, made when the turn is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast

from recollect.backends.base import Owner, get_owner
from recollect.backends.curated.entries import (
    Change,
    InvalidChange,
    Operation,
    Plan,
    Target,
    describe_usage,
    preview,
    read_change,
)
from recollect.backends.curated.folder import CuratedFolder, plan_change
from recollect.backends.curated.snapshot import render_entries
from recollect.concurrency.threads import ThreadPool
from recollect.errors import RecollectError
from recollect.pipeline.context import RunContext, get_kept_call, tool_context

NAME = "memory"
"""What the tool is called."""

OWNER = "curated-memory"
"""Under which name a run keeps what the tool has done in it."""

MAX_FAILURES = 3
"""After so many failed calls in a row the tool tells the model to stop."""

_STAGED, _FAILURES, _TURN = "staged", "failures", "turn"

MemoryTool: TypeAlias = Callable[..., Awaitable[dict[str, object]]]
"""The tool as a model's loop calls it."""


def make_memory_tool(
    folder: CuratedFolder, threads: ThreadPool, *, approval: bool, check_owner: Callable[[Owner], None]
) -> MemoryTool:
    """Return the tool for a folder; `check_owner` raises for a run of somebody else."""

    async def memory(
        target: Literal["memory", "user"] | None = "memory",
        action: Literal["add", "replace", "remove"] | None = None,
        content: str | None = None,
        old_text: str | None = None,
        operations: list[Operation] | None = None,
    ) -> dict[str, object]:
        """Change your long-term memory, which you are shown at the start of every conversation.

        Save what will matter later without being asked: preferences, corrections, facts about the user
        (target "user"), about their projects and tools, and what you learned (target "memory"). Write short,
        plain facts, not instructions. Do not save what is only true today, or secrets.

        Args:
            target: "user" for who the user is, "memory" for your own notes.
            action: "add" writes content as a new entry, "replace" puts content in the place of the entry that
                contains old_text, "remove" deletes the entry that contains old_text.
            content: The text of the entry.
            old_text: A part of the entry that is meant, which no other entry has.
            operations: Several changes of one target instead of action: all are made, or none. Use it to make
                room and add in one call.
        """
        given = {
            "target": target,
            "action": action,
            "content": content,
            "old_text": old_text,
            "operations": operations,
        }
        ctx, kept = tool_context(OWNER), get_kept_call()
        check_owner(get_owner(ctx.ids))
        call = _Call(given, given if kept is None else kept.arguments)
        # Calls of one step run concurrently; each must see what the earlier ones have staged.
        async with cast("asyncio.Lock", ctx.state.setdefault(_TURN, asyncio.Lock())):
            answer = await threads.run(lambda: _check_call(folder, call, _get_staged(ctx), approval=approval))
            return _make_answer(ctx, answer)

    return memory


class _Call(NamedTuple):
    """The arguments as the model gave them, and as they are after the guards."""

    given: Mapping[str, object]
    kept: Mapping[str, object]

    def change(self) -> Change | InvalidChange:
        """Return the change that will be made when the turn is stored."""
        change, meant = read_change(self.kept), read_change(self.given)
        if (
            isinstance(change, Change)
            and isinstance(meant, Change)
            and _list_old_texts(change) != _list_old_texts(meant)
        ):
            # What is left of it may be a part of another entry, and that one would be lost.
            return InvalidChange(
                "a guard has taken something out of old_text: name the entry by another part of it",
                target=change.target,
            )
        return change


def _list_old_texts(change: Change) -> list[str]:
    return [(one.old_text or "").strip() for one in change.operations]


class _CheckedCall:
    """What became of a call: the change, if it can be made, and the file as it would be then."""

    def __init__(
        self, outcome: Change | InvalidChange, target: Target | None, facts: Mapping[str, object]
    ) -> None:
        self.outcome = outcome
        self.target = target
        self.facts = dict(facts)


def _check_call(folder: CuratedFolder, call: _Call, staged: list[Change], *, approval: bool) -> _CheckedCall:
    """Plan a call on the files and on what this run has staged, and write nothing."""
    change = call.change()
    target = change.target
    if target is None:
        return _CheckedCall(change, None, {})
    try:
        folder.check_writable()
        if approval:
            folder.queue.read()  # one that nobody can read lets nothing pass
        entries = _apply_staged(folder, target, staged)
    except RecollectError as error:
        return _CheckedCall(InvalidChange(str(error)), target, {})
    limit = folder.limits[target]
    outcome = plan_change(entries, change, limit) if isinstance(change, Change) else change
    if isinstance(outcome, Plan):
        when = "it waits for a person's approval" if approval else "it is kept with this turn"
        is_change = outcome.entries != entries
        becomes = when if is_change else "nothing changes"
        waits = {"waits_for_approval": True} if approval and is_change else {}
        facts = {
            **waits,
            "usage": describe_usage(outcome.entries, limit),
            "entry_count": len(outcome.entries),
            "message": f"{', '.join(outcome.done)}; {becomes}",
        }
        return _CheckedCall(cast("Change", change), target, facts)
    facts = {"usage": describe_usage(entries, limit), "current_entries": render_entries(entries, limit)}
    if outcome.matches:
        facts["matches"] = [preview(entry) for entry in render_entries(outcome.matches, limit)]
    return _CheckedCall(outcome, target, facts)


def _apply_staged(folder: CuratedFolder, target: Target, staged: list[Change]) -> tuple[str, ...]:
    entries = folder.files[target].read_to_change().parsed.entries
    for earlier in staged:
        if earlier.target == target:
            made = plan_change(entries, earlier, folder.limits[target])
            entries = made.entries if isinstance(made, Plan) else entries
    return entries


def _make_answer(ctx: RunContext, checked: _CheckedCall) -> dict[str, object]:
    """Note what became of a call, and say it to the model."""
    named = {} if checked.target is None else {"target": checked.target}
    if isinstance(checked.outcome, Change):
        _get_staged(ctx).append(checked.outcome)
        ctx.state[_FAILURES] = 0
        return {"success": True, "done": True, **named, **checked.facts}
    failures = ctx.state[_FAILURES] = cast("int", ctx.state.get(_FAILURES, 0)) + 1
    is_over = failures >= MAX_FAILURES
    advice = f" This has failed {failures} times: stop, and answer the user without it." if is_over else ""
    error = f"{checked.outcome.problem}.{advice}"
    return {"success": False, "done": is_over, **named, "error": error, **checked.facts}


def _get_staged(ctx: RunContext) -> list[Change]:
    return cast("list[Change]", ctx.state.setdefault(_STAGED, []))
