"""The row of a redrive: its fields, and how it is read and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Row as Answer
from sqlalchemy import Select, select

from consumer.journal.clock import now_ms
from consumer.journal.records import Published
from consumer.journal.tables import redrive
from feedback.errors import ExitCode, OncewardError
from feedback.kafka.values import Partition

RUNNING, CANCELLED, DONE = "running", "cancelled", "done"

Offsets = dict[Partition, int]


class RedriveStopped(OncewardError):
    """The redrive is not this process's any more: it was cancelled, or goes on elsewhere."""

    exit_code = ExitCode.BAD_ANSWER
    entry = "error-redrivestopped"


class Redrive(NamedTuple):
    """A redrive as the journal has it.

    Args:
        owner: the process that goes on with it; None when it was stopped in order.
        filter: the letters asked for, as its reader has encoded it.
        spans: of each partition of the letters: the first offset to read, and the end.
        positions: up to where all letters are done.
        marks: of topics that were sent to: the ends before the first of `unconfirmed` was sent.
        unconfirmed: requests behind the positions that were reopened.
        counts: how many letters were read, sent and refused, by name, up to the positions.
        silent_ms: how long ago its process last wrote here, by the database's clock.
        named: the results of requests that were asked for by their id, and met so far.
        under_way: the counts behind the positions, as they were last saved: for a person, since who
            resumes it reads these letters again.
        left_out: of topics that were deleted and made anew: how many offsets of each were not read.
    """

    redrive_id: str
    by: str
    reason: str | None
    started_at: int
    updated_at: int
    state: str
    owner: str | None
    filter: str
    spans: dict[Partition, tuple[int, int]]
    positions: Offsets
    marks: Offsets
    unconfirmed: list[str]
    counts: dict[str, int]
    silent_ms: int
    named: Mapping[str, str] = MappingProxyType({})
    under_way: Mapping[str, int] = MappingProxyType({})
    left_out: Mapping[str, int] = MappingProxyType({})

    @property
    def all_counts(self) -> dict[str, int]:
        """The counts of all letters so far; a process that was killed may have sent a few more."""
        return dict(Counter(self.counts) + Counter(self.under_way))


# `named`, `under_way` and `left_out` lie among the counts.
_COLUMNS = Redrive._fields[: Redrive._fields.index("silent_ms")]
_NAMED, _UNDER_WAY, _LEFT_OUT = "requests", "under_way", "left_out"


class SavedProgress(NamedTuple):
    """The progress of a redrive that is to be saved.

    Args:
        unconfirmed: all that may be reopened and unsent.
        published: reopened rows that Redis was told of.
    """

    positions: Mapping[Partition, int]
    marks: Mapping[Partition, int]
    unconfirmed: Collection[str]
    counts: Mapping[str, int]
    named: Mapping[str, str] = MappingProxyType({})
    published: Sequence[Published] = ()
    under_way: Mapping[str, int] = MappingProxyType({})
    left_out: Mapping[str, int] = MappingProxyType({})

    def values(self) -> dict[str, str]:
        further = {
            _NAMED: dict(self.named),
            _UNDER_WAY: dict(self.under_way),
            _LEFT_OUT: dict(self.left_out),
        }
        counts = {**self.counts, **{name: what for name, what in further.items() if what}}
        return {
            "positions": _encode_offsets(self.positions),
            "marks": _encode_offsets(self.marks),
            "unconfirmed": json.dumps(sorted(self.unconfirmed)),
            "counts": json.dumps(counts),
        }


def _encode_offsets(offsets: Mapping[Partition, int]) -> str:
    return json.dumps([[*place, offset] for place, offset in sorted(offsets.items())])


def encode_spans(spans: Mapping[Partition, tuple[int, int]]) -> str:
    return json.dumps([[*place, *span] for place, span in sorted(spans.items())])


def select_redrives() -> Select[Any]:
    """Return the statement that `decode_redrive` reads an answer of."""
    columns = [redrive.c[name] for name in _COLUMNS]
    return select(*columns, now_ms() - redrive.c.updated_at)


def decode_redrive(answer: Answer[Any]) -> Redrive:
    stored, counts = Redrive(*tuple(answer)), json.loads(answer.counts)
    return stored._replace(
        spans={
            (topic, number): (begin, end) for topic, number, begin, end in json.loads(answer.spans)
        },
        positions=_offsets(answer.positions),
        marks=_offsets(answer.marks),
        unconfirmed=json.loads(answer.unconfirmed),
        named=counts.pop(_NAMED, {}),
        under_way=counts.pop(_UNDER_WAY, {}),
        left_out=counts.pop(_LEFT_OUT, {}),
        counts=counts,
    )


def _offsets(text: str) -> Offsets:
    return {(topic, number): offset for topic, number, offset in json.loads(text)}
