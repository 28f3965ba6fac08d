"""A file of credentials that is read again when it has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from feedback.errors import NotAvailable

Content = TypeVar("Content")
# Ten thousand keys have 2 MB.
_MOST_BYTES = 16 * 2**20


class ChangingFile(Generic[Content]):
    """A file, and its meaning.

    Args:
        setting: the setting that names it, for errors.
        parse: gives its meaning; a ValueError says that it has none.
    """

    def __init__(self, setting: str, path: Path, parse: Callable[[bytes], Content]) -> None:
        self._setting = setting
        self._path = path
        self._parse = parse
        self._read: tuple[tuple[int, ...], Content] | None = None

    def current(self) -> Content:
        """Return the meaning of the file as it is now.

        Raises:
            NotAvailable: it cannot be read or understood. An older content is not used: a key may
                have been revoked since.
        """
        try:
            there = self._path.stat()
            # Before it is read: one that changes meanwhile is read once more.
            version = (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
            if self._read is None or self._read[0] != version:
                with self._path.open("rb") as file:
                    self._read = version, self._parse(file.read(_MOST_BYTES))
            return self._read[1]
        except OSError as error:
            raise self._unusable(error.strerror or type(error).__name__) from error
        except (ValueError, RecursionError):
            # Its message could quote the file.
            raise self._unusable("it is damaged, or of a newer version") from None

    def _unusable(self, why: str) -> NotAvailable:
        return NotAvailable(f"{self._setting} = {self._path} cannot be used: {why}")
