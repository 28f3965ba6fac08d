"""Dead letters and outcomes that the journal owes for long: Kafka does not take them.

Until then a failure has no letter, so a list of letters alone would say that all is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from consumer.features.dead_letters.strategies import KEEP, STOP
from consumer.journal.owed_rows import DeadLetterRows, OutcomeRows
from feedback.settings.settings import Settings

# A worker writes them within seconds; the sweep of another one's within some leases.
LATE_MS = 60_000
NAMES = {DeadLetterRows: "dead letter", OutcomeRows: "outcome"}


class OwedLate(NamedTuple):
    """Records about requests of one topic.

    Args:
        name: of their kind.
        oldest_ms: how long ago the first of these requests has ended.
    """

    name: str
    topic: str
    requests: int
    oldest_ms: int


def owed_late(settings: Settings) -> list[OwedLate]:
    """Return the records that are owed for longer than `LATE_MS`.

    Raises:
        JournalUnavailable: the journal is away.
    """
    return [*_owed(settings)]


def _owed(settings: Settings) -> Iterator[OwedLate]:
    for kind, name in NAMES.items():
        with closing(kind.from_settings(settings, worker_id="")) as rows:
            for one in rows.waiting():
                is_wanted = kind is not DeadLetterRows or _has_letters(settings, one.topic)
                if is_wanted and one.oldest_ms >= LATE_MS:
                    yield OwedLate(name, one.topic, one.requests, one.oldest_ms)


def _has_letters(settings: Settings, topic: str) -> bool:
    return settings.worker.dead_letters_of(topic) in (KEEP, STOP)
