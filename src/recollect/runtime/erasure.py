"""Erasing the user of a folder that is an agent: sessions, events, and what curated memory has of them."""

import asyncio
from dataclasses import dataclass

from recollect.backends.curated.entries import FILE_NAMES
from recollect.backends.curated.folder import CuratedFolder
from recollect.runtime.config.settings import RuntimeConfig
from recollect.storage.records import EraseReport
from recollect.storage.store import Store


@dataclass(frozen=True, slots=True)
class FolderErasure:
    """What was erased: rows of the store, and files. `not_reached` may still have the user's words."""

    rows: EraseReport
    files: tuple[str, ...]
    not_reached: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON."""
        return {
            "counts": dict(self.rows.counts),
            "total": self.rows.total,
            "epoch": self.rows.epoch,
            "log": self.rows.log,
            "file": self.rows.file,
            "files": list(self.files),
            "not_reached": list(self.not_reached),
        }


async def erase_folder(config: RuntimeConfig, store: Store) -> FolderErasure:
    """Erase the user of a configuration, in the store and in the folder of curated memory.

    The rows go first: a run under way then finds that its user was erased, and changes no file.
    """
    rows = await store.erase(scope=config.scope)
    folder = CuratedFolder(config.curated.folder)
    files = await asyncio.to_thread(folder.erase_user) if folder.path.is_dir() else []
    return FolderErasure(rows, tuple(str(path) for path in files), tuple(_list_not_reached(config, folder)))


def _list_not_reached(config: RuntimeConfig, folder: CuratedFolder) -> list[str]:
    found: list[str] = []
    if folder.files["memory"].path.exists():
        found.append(f"{folder.path / FILE_NAMES['memory']}: the model's own notes; look through them")
    if config.gateway is not None:
        found.append(
            f"the copy at the memory gateway {config.gateway.base_url} of user {config.gateway.user_id!r}; "
            "ask whoever runs it"
        )
    return found
