"""The dead letters that an address chooses: of a topic, by conditions, and of a stretch of time.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from consumer.dlq.dates import WHENEVER, DateRange, iso
from consumer.dlq.tally import HistogramBar
from feedback.records.envelope import MAX_EPOCH_MS

# The names of a condition in an address, and its column.
CONDITIONS = {
    "topic": "topic",
    "reason": "reason",
    "exception": "class",
    "message": "kind",
    "system": "dialect",
}
# The name of a dead letter topic of another system in an address; without it the group's own.
DLQ = "dlq"
# The names of both ends of a stretch in an address.
ENDS = ("since", "until")
# The other conditions of an address, in one field of a form: browsers change line breaks in a
# field, and pages control characters.
WITHIN = "within"


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """The letters that meet all of it.

    Attributes:
        conditions: names of `CONDITIONS`, and values; an empty one is of letters that have none.
        dlq: a dead letter topic of another system; empty for the group's own.
    """

    conditions: tuple[tuple[str, str], ...] = ()
    stretch: DateRange = WHENEVER
    dlq: str = ""

    @property
    def words(self) -> dict[str, str]:
        """It as an address has it."""
        return {**self.source, **self.narrowed}

    @property
    def narrowed(self) -> dict[str, str]:
        """All of it but the topic, as an address has it; its moments are absolute, and exact."""
        ends = zip(ENDS, self.stretch, strict=True)
        return {**dict(self.conditions), **{name: iso(at) for name, at in ends if at is not None}}

    @property
    def source(self) -> dict[str, str]:
        """The topic as an address has it."""
        return {DLQ: self.dlq} if self.dlq else {}

    def of_bar(self, bar: HistogramBar) -> LetterChoice | None:
        """Return the letters among these that a bar counts.

        Returns:
            None for a bar outside the calendar: an address cannot say its time.
        """
        since_ms, until_ms = bar.begin_ms, bar.begin_ms + bar.step_ms
        if since_ms < 0 or until_ms > MAX_EPOCH_MS:
            return None
        # The first and the last bar may be wider than the stretch.
        if self.stretch.since_ms is not None:
            since_ms = max(since_ms, self.stretch.since_ms)
        if self.stretch.until_ms is not None:
            until_ms = min(until_ms, self.stretch.until_ms)
        return replace(self, stretch=DateRange(since_ms, until_ms))


EVERYTHING = LetterChoice()


def asked_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of an address, with those that `WITHIN` holds.

    >>> asked_of({"within": "reason=&topic=a%0Ab", "since": "2h"})
    {'reason': '', 'topic': 'a\\nb', 'since': '2h'}
    """
    kept = dict(parse_qsl(query.get(WITHIN, ""), keep_blank_values=True))
    return kept | {name: value for name, value in query.items() if name != WITHIN}
