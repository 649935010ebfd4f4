"""Runs that used the memory tool, as a backend gets them, and the change they ask for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recollect.backends.base import CompletedRun, StartedRun
from recollect.backends.curated.backend import CuratedMemoryBackend
from recollect.backends.curated.entries import Change, Operation, Target
from recollect.messages import Message, ToolCall, ToolResult, now

STARTED = StartedRun("s1", "r0", "hello")


def add(content: str, target: Target = "memory") -> dict[str, Any]:
    """Return the arguments of a call that adds an entry."""
    return {"target": target, "action": "add", "content": content}


def addition(content: str, target: Target = "memory") -> Change:
    """Return the same as a change."""
    return Change(target, (Operation("add", content),))


def completed(*calls: Mapping[str, Any], run_id: str = "r1", success: object = True) -> CompletedRun:
    """Return a run in which the model made calls, each answered before the next, all with one id."""
    messages = [Message("user", "note it")]
    for arguments in calls:
        messages += [
            Message("assistant", [ToolCall("c", "memory", dict(arguments))]),
            Message("tool", [ToolResult("c", "memory", {"success": success, "done": True})]),
        ]
    messages.append(Message("assistant", "Noted."))
    return CompletedRun("s1", run_id, "note it", "Noted.", now(), now(), tuple(messages))


async def snapshot(backend: CuratedMemoryBackend) -> str:
    """Return what a new run is shown."""
    return (await backend.recall_before_run(STARTED)).snapshot


def found(folder: Path, pattern: str = "*") -> list[Path]:
    """Return what a folder has, in the order of its names."""
    return sorted(folder.glob(pattern))


def entries(folder: Path, name: str = "MEMORY.md") -> list[str]:
    """Return the entries of a file, by its text alone."""
    path = folder / name
    text = path.read_text("utf-8") if path.exists() else ""
    return text.split("\n§\n") if text else []
