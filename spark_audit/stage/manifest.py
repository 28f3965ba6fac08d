"""The limits of a snapshot, frozen before anything was read, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from feedback.errors import NotAvailable
from spark_audit.output.location import Location
from spark_audit.output.outputs import put_text
from spark_audit.stage.chain import ChainLink, EarlierRun, OffsetRange, RunReach, first_reached

VERSION = 6


class Outdated(NotAvailable):
    """A manifest that an older version of this program wrote."""


class Damaged(NotAvailable):
    """No manifest, where there must be one: missing, cut short, or changed."""


class TopicKind(StrEnum):
    """The kind of a topic, and with it of its records, but for two kinds that only a record can be:
    the outcome of a request, on a topic that the group does not read, and the tombstone of another
    record."""

    REQUEST = "request"
    RETRY = "retry"
    WAIT = "wait"
    DLQ = "dlq"
    OUTCOME = "outcome"
    TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True)
class FrozenPartition:
    """One partition as it stood at the freeze.

    Args:
        begin: the first offset that Kafka still had.
        start: the first offset of the window, or of the requests that an earlier run carried over;
            it is read from here.
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
class AbortedOffsets:
    """Offsets of transactions without committed records: marks of ends, and aborted records."""

    topic: str
    partition: int
    first: int
    after: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a partition's log ended when the journal had been read: no row names a later record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ForgottenPartition:
    """How far pruning has forgotten a partition when the journal had been read.

    Args:
        next_offset: the offset after the last record of which a row was deleted.
        deadline_at: epoch ms, the latest deadline among these rows.
    """

    topic: str
    partition: int
    next_offset: int
    deadline_at: int


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Where a snapshot was read from.

    Args:
        topics: `[audit] topics`, sorted.
        brokers: `[kafka] bootstrap_servers`.
        journal: `[journal] url`, without its password.
        schema: the version of its tables.
    """

    topics: tuple[str, ...]
    brokers: str
    journal: str
    cluster_id: str = ""
    journal_id: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The limits of a snapshot.

    Args:
        frozen_at_ms: when the offsets were read, by this host's clock.
        journal_read_at_ms: when the journal began to be read, by the database's clock; 0 before.
        grace_ms: how long after its deadline a request is left in peace.
        deadline_s: the deadline of a record that names none, counted from its timestamp.
        partitions: of all topics that are read, by kind, topic and number.
        workers: until when each worker has its lease, epoch ms by the database's clock.
        carried: the ids that an earlier run could not judge to the end.
        compacted: the topics that forget records by key.
        lettered: the request topics whose failures become dead letters.
        aborted: the long holes in the offsets of its partitions that are no gaps.
        forgotten: the partitions of which the journal has deleted rows.
        log_ends: of the partitions of requests.
        number: of the run; runs of a folder are numbered in the order in which they were made.
        before_ms: epoch ms, up to when the day before had taken everything; 0 where there is none.
        links: of each partition, which offsets the day judges.
        source: where it was read from; None where it was made by hand.
        unseen: a sentence about each lack of evidence, which stays when the day is read again.
        hidden: likewise, of what may be seen by then.
        files: of the snapshot, by path within it, and how long each is.
        reran_since_ms: epoch ms by the database's clock, when the run before read the journal: a
            request of an earlier day that ran again since then is the day's; 0 where no run was
            before.
        reran_until_ms: epoch ms, up to where that goes; 0 for the day's own reading.
    """

    date: str
    since_ms: int
    until_ms: int
    frozen_at_ms: int
    journal_read_at_ms: int
    group: str
    grace_ms: int
    deadline_s: float
    partitions: tuple[FrozenPartition, ...]
    workers: Mapping[str, int] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()
    lettered: tuple[str, ...] = ()
    aborted: tuple[AbortedOffsets, ...] = ()
    forgotten: tuple[ForgottenPartition, ...] = ()
    log_ends: tuple[LogEnd, ...] = ()
    number: int = 1
    before_ms: int = 0
    links: tuple[ChainLink, ...] = ()
    source: SnapshotSource | None = None
    unseen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict)
    reran_since_ms: int = 0
    reran_until_ms: int = 0

    @property
    def reran_to_ms(self) -> int:
        """Epoch ms, from when on the next run looks for requests that ran again."""
        return self.reran_until_ms or self.journal_read_at_ms

    @property
    def past(self) -> EarlierRun:
        """The run as a part of the chain."""
        links = {(one.topic, one.partition): one for one in self.links}
        return EarlierRun(self.date, self.number, self.until_ms, self.frozen_at_ms, links)

    @property
    def reached_at_ms(self) -> int:
        """Epoch ms, when the day was frozen first after its end, or last before: rows that no
        offset judges belong to it up to here."""
        return self.past.reached_at_ms

    def of_journal(self, journal_id: str, schema: str) -> Self:
        """Return the same, read from this journal."""
        if self.source is None:
            return self
        return replace(self, source=replace(self.source, journal_id=journal_id, schema=schema))

    def stretches(self, topic: str, partition: int) -> tuple[OffsetRange, ...]:
        """Return the offsets that are the day's own unless a record there says otherwise."""
        for one in self.links:
            if (one.topic, one.partition) == (topic, partition):
                return tuple(first_reached(one.reaches, self.date))
        return ()

    @classmethod
    def read(cls, path: Location) -> Self:
        """Return the manifest that was written there.

        Raises:
            Outdated: it is of an older version.
            Damaged: there is none, or it says nothing.
            NotAvailable: it is of a newer version, or cannot be read.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version = found.pop("version")
            if version == VERSION:
                return cls._of(found)
        except FileNotFoundError as error:
            raise Damaged(f"{path}: {error.strerror}; read the day again, with --again") from error
        except OSError as error:
            raise NotAvailable(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(
                f"{path} is no manifest of version {VERSION}: read the day again, with --again"
            ) from error
        other = f"{path} is of version {version}, and this audit reads {VERSION}: "
        if isinstance(version, int) and version < VERSION:
            raise Outdated(f"{other}read the day again, with --again")
        raise NotAvailable(f"{other}run the audit of that version")

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Self:
        partitions = tuple(FrozenPartition(**one) for one in found.pop("partitions"))
        for name in ("carried", "compacted", "lettered", "unseen"):
            found[name] = tuple(found[name])
        # A manifest of before lacks it.
        found["hidden"] = tuple(found.get("hidden", ()))
        found["links"] = tuple(_link(one) for one in found["links"])
        found["source"] = _source(found["source"])
        found["aborted"] = tuple(AbortedOffsets(**one) for one in found["aborted"])
        found["log_ends"] = tuple(LogEnd(**one) for one in found["log_ends"])
        found["forgotten"] = tuple(ForgottenPartition(**one) for one in found["forgotten"])
        return cls(**found, partitions=partitions)

    def write(self, path: Location) -> None:
        """Write it whole or not at all.

        Raises:
            OSError: the disk is full, or the folder is not ours.
        """
        text = json.dumps({"version": VERSION, **asdict(self)}, indent=1, sort_keys=True)
        put_text(path, text + "\n")


def _link(found: Any) -> ChainLink:
    reaches = tuple(RunReach(**one) for one in found.pop("reaches"))
    return ChainLink(**found, reaches=reaches)


def _source(found: Any) -> SnapshotSource | None:
    return found and SnapshotSource(**found | {"topics": tuple(found["topics"])})
