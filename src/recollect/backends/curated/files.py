"""One curated file on the disk: read as it stands, and never overwritten unless it is fully understood."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from recollect.backends.curated.durable import Found, read_file, replace_file
from recollect.backends.curated.text import Parsed, parse, serialise
from recollect.errors import StaleChangeError, StorageCorruptError, StorageError, StorageReadOnlyError

_log = logging.getLogger("recollect")

_LARGEST_MEMORY = 4 * 1024 * 1024
_WRITABLE = 0o222


class FileState(NamedTuple):
    """A file that was read to be changed: what stands in it, and the bytes it had."""

    parsed: Parsed
    found: Found | None


@dataclass(frozen=True, slots=True)
class CuratedFile:
    """A file with entries; hold the lock of its folder to change it."""

    path: Path

    def read(self) -> Parsed:
        """Return what stands in it, also if it may not be written; one that is not there is empty."""
        return self._parsed(self._found())

    def read_to_change(self) -> FileState:
        """Return what stands in it if writing it would lose nothing.

        Otherwise a copy is put beside it, and the error says how to repair it.
        """
        found = self._found()
        if found is not None and not found.mode & _WRITABLE:
            raise StorageReadOnlyError(f"{self.path} is marked read-only; `chmod u+w` it to allow changes")
        try:
            parsed = self._parsed(found)
        except StorageCorruptError as error:
            raise self._refused(str(error), found) from None
        if parsed.problem is not None:
            raise self._refused(f"{self.path} is not in the form of a memory file: {parsed.problem}", found)
        return FileState(parsed, found)

    def write(self, entries: Sequence[str], over: FileState) -> None:
        """Put entries in the place of what was read; an editor, which knows no lock, may have been faster."""
        if self._found() != over.found:
            raise StaleChangeError(f"{self.path} was changed just now by somebody else; try again")
        text = serialise(entries, over.parsed.start, over.parsed.ending)
        replace_file(self.path, text.encode(), over.found)

    def _found(self) -> Found | None:
        return read_file(self.path, largest=_LARGEST_MEMORY)

    def _parsed(self, found: Found | None) -> Parsed:
        if found is None:
            return Parsed()
        try:
            return parse(found.data.decode())
        except UnicodeDecodeError as error:
            raise StorageCorruptError(f"{self.path} is not UTF-8 text (byte {error.start})") from None

    def _refused(self, problem: str, found: Found | None) -> StorageCorruptError:
        return StorageCorruptError(
            f"{problem}. It was left as it is{self._backed_up(found)}. To repair it, save it as UTF-8 with "
            "Unix line ends, with one line that holds only § between two entries, and with none elsewhere"
        )

    def _backed_up(self, found: Found | None) -> str:
        """Copy the file once for each content, and say where to."""
        if found is None:
            return ""
        name = f"{self.path.name}.{hashlib.sha256(found.data).hexdigest()[:12]}.bak"
        backup = self.path.with_name(name)
        try:
            if read_file(backup, largest=_LARGEST_MEMORY) is None:
                replace_file(backup, found.data, found)
        except StorageError as error:
            _log.warning("%s could not be copied: %s", self.path, error)
            return ", and could not be copied"
        return f", and a copy is in {backup.name}"
