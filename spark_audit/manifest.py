"""What was frozen before anything was read: the limits of a snapshot, as one JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from feedback.errors import NotAvailable

VERSION = 3


class NotOurs(NotAvailable):
    """A manifest that this version of the program did not write."""


class Kind(StrEnum):
    """What a topic is for."""

    REQUEST = "request"
    RETRY = "retry"
    WAIT = "wait"
    DLQ = "dlq"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as it stood at the freeze.

    Args:
        kind: a value of `Kind`.
        begin: the first offset that Kafka still had.
        start: the first offset of the window, or of what an earlier run carried over; it is read
            from here.
        end: the offset after the last one; it is read up to here.
        committed: the group's committed offset; None when it had none.
    """

    kind: str
    topic: str
    partition: int
    begin: int
    start: int
    end: int
    committed: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The limits of a snapshot.

    Args:
        date: YYYY-MM-DD.
        since_ms: epoch ms, the window's first.
        until_ms: epoch ms, the first after the window.
        frozen_at_ms: when the offsets were read, by this host's clock.
        journal_read_at_ms: when the journal began to be read, by the database's clock; 0 before.
        group: the consumer group.
        grace_ms: how long after its deadline a request is left in peace.
        deadline_s: the deadline of a record that names none, counted from its timestamp.
        partitions: of all topics that are read, by kind, topic and number.
        workers: until when each worker has its lease, epoch ms by the database's clock.
        carried: the ids that an earlier run could not judge to the end.
        compacted: the topics that forget records by key.
        lettered: the request topics whose failures become dead letters.
    """

    date: str
    since_ms: int
    until_ms: int
    frozen_at_ms: int
    journal_read_at_ms: int
    group: str
    grace_ms: int
    deadline_s: float
    partitions: tuple[Partition, ...]
    workers: Mapping[str, int] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()
    lettered: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the manifest that was written there.

        Raises:
            NotOurs: it is not one of this version of this program.
            NotAvailable: there is none.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls._of(found)
        except OSError as error:
            raise NotAvailable(f"{path}: {error.strerror}; read the day again") from error
        except (ValueError, TypeError, KeyError) as error:
            raise NotOurs(
                f"{path} is no manifest of version {VERSION}: remove its snapshot and read the "
                "day again"
            ) from error

    @classmethod
    def _of(cls, found: Any) -> Self:
        if not isinstance(found, dict) or found.pop("version") != VERSION:
            raise ValueError("version")
        partitions = tuple(Partition(**one) for one in found.pop("partitions"))
        for name in ("carried", "compacted", "lettered"):
            found[name] = tuple(found[name])
        return cls(**found, partitions=partitions)

    def write(self, path: Path) -> None:
        """Write it whole or not at all.

        Raises:
            OSError: the disk is full, or the folder is not ours.
        """
        text = json.dumps({"version": VERSION, **asdict(self)}, indent=1, sort_keys=True)
        part = path.with_name(f".{path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
