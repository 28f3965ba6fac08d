"""The connections that a redrive needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

from consumer.dlq.reading import LetterPage
from consumer.dlq.redrive_carrying import Writer
from consumer.dlq.redrive_telling import Tellings
from consumer.dlq.redrive_traces import Traces
from consumer.journal.redrive_work import RedriveWork
from feedback.kafka.scan import OffsetSpan, Place


class Reader(Protocol):
    """Reads letters."""

    def pages(self, spans: Mapping[Place, OffsetSpan]) -> Iterator[LetterPage]: ...


class Tools(NamedTuple):
    """The connections that a redrive needs.

    Args:
        topics: the topics that exist.
    """

    letters: Reader
    work: RedriveWork
    traces: Traces
    tellings: Tellings
    writer: Writer
    topics: Collection[str]
