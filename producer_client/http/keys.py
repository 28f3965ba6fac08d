"""API keys: a file that knows them by their SHA-256, changed as a whole and by one at a time.

A key has 256 random bits, so its hash needs neither salt nor many rounds.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from feedback.clock import epoch_ms
from feedback.errors import NotAvailable
from feedback.files import OWNER_ONLY, new_private_file
from producer_client.http.callers import Caller, invalid
from producer_client.http.changing_file import ChangingFile

SETTING = "[http] keys_file"
# Scanners for leaked secrets find a key by it.
PREFIX = "onceward_"
_NOBODY = "0" * 64

Topics = tuple[str, ...] | None


class ApiKey(BaseModel):
    """A key as the file has it.

    Args:
        id: names it in lists; a part of the key.
        name: the caller. Keys of one name are one caller, so that a key can be replaced.
        submit: the topics it may submit to; None for each. `read` likewise, to follow.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    name: Annotated[str, Field(min_length=1, max_length=128)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    submit: Topics
    read: Topics
    created_at: int


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    keys: tuple[ApiKey, ...]


class KeyFile:
    """The file of keys, for commands that list and change it.

    A change is written to a new file, synchronized, and renamed over the old one. A process that
    dies before the rename has changed nothing, one that dies after it has changed all.
    """

    def __init__(self, path: Path) -> None:
        # A link stays one.
        self._path = path.resolve()

    def read(self) -> tuple[ApiKey, ...]:
        """Return the keys, oldest first.

        Raises:
            NotAvailable: the file cannot be read.
        """
        return tuple(ChangingFile(SETTING, self._path, _parsed).current().values())

    def create(self, name: str, *, submit: Topics, read: Topics) -> tuple[ApiKey, str]:
        """Make a key, and return it with its text, which is nowhere else.

        If the process dies before it has shown the text, nobody has it: revoke the key.

        Raises:
            NotAvailable: the file cannot be read or written.
        """
        with self._changing() as keys:
            id_ = next(one for one in iter(lambda: secrets.token_hex(4), "") if one not in keys)
            text = f"{PREFIX}{id_}_{secrets.token_urlsafe(32)}"
            keys[id_] = made = ApiKey(
                id=id_,
                name=name,
                sha256=_hash(text),
                submit=submit,
                read=read,
                created_at=epoch_ms(),
            )
        return made, text

    def revoke(self, ids: Sequence[str]) -> list[str]:
        """Remove keys, and return those that were there.

        Raises:
            NotAvailable: the file cannot be read or written.
        """
        with self._changing() as keys:
            return [one for one in ids if keys.pop(one, None) is not None]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, ApiKey]]:
        """Yield the keys to change, and write them. Meanwhile no other process changes them."""
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                keys = {one.id: one for one in self.read()} if self._path.exists() else {}
                yield keys
                self._replace(keys)
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise NotAvailable(f"{SETTING} = {self._path}: {error.strerror}") from error

    def _replace(self, keys: Mapping[str, ApiKey]) -> None:
        part = self._path.with_name(f".{self._path.name}.part")
        # Of a process that died: no other one writes it now.
        part.unlink(missing_ok=True)
        with new_private_file(part) as file:
            if self._path.exists():
                # The service may be another user, or read it by its group.
                old = self._path.stat()
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), OWNER_ONLY | old.st_mode & 0o040)
            file.write(_Keys(keys=tuple(keys.values())).model_dump_json(indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)


class ApiKeys:
    """Recognises callers by their keys.

    Raises:
        NotAvailable: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = ChangingFile(SETTING, path, _parsed)
        self._file.current()

    def caller_of(self, text: str) -> Caller:
        """Return the caller with this key.

        Raises:
            NotAuthenticated: there is no such key, or no more.
            NotAvailable: the file cannot be read now.
        """
        id_ = text.removeprefix(PREFIX).partition("_")[0]
        found = self._file.current().get(id_)
        if not compare_digest(_hash(text), found.sha256 if found else _NOBODY) or found is None:
            raise invalid("no such API key")
        return Caller(f"key:{found.name}", _scope(found.submit), _scope(found.read))


def _scope(topics: Topics) -> frozenset[str] | None:
    return None if topics is None else frozenset(topics)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _parsed(content: bytes) -> dict[str, ApiKey]:
    try:
        return {one.id: one for one in _Keys.model_validate_json(content).keys}
    except ValidationError:
        raise ValueError from None
