"""Finds the records that a killed redrive has sent: they stand in the topics, behind the marks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from consumer.dlq.redrive_record import sent_by
from feedback.clock import monotonic_s
from feedback.kafka.scan import KafkaScan, OffsetSpan, Place

# An older mark is as good; there is only more to read behind it after a kill.
REFRESH_S = 5.0


class Traces:
    """Takes marks, and reads the records behind them. Belongs to one thread.

    Args:
        scan: over a connection of its own; it reads uncommitted records as well.
    """

    def __init__(self, scan: KafkaScan) -> None:
        self._scan = scan
        self._marks: dict[str, tuple[float, dict[Place, int]]] = {}

    def marks(self, topics: Collection[str]) -> dict[Place, int]:
        """Return the ends of the topics: all records that are sent from now on stand behind them.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        now_s = monotonic_s()
        old = [one for one in topics if now_s - self._marked_s(one) > REFRESH_S]
        ends = self._scan.spans(old) if old else {}
        for topic in old:
            found = {place: span.end for place, span in ends.items() if place[0] == topic}
            self._marks[topic] = now_s, found
        return {place: end for topic in topics for place, end in self._marks[topic][1].items()}

    def sent(self, redrive_id: str, marks: Mapping[Place, int]) -> set[str]:
        """Return the requests of this redrive that stand behind the marks.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        spans = {
            # A partition that was added since has no mark.
            place: OffsetSpan(max(span.begin, marks.get(place, 0)), span.end)
            for place, span in self._scan.spans({topic for topic, _ in marks}).items()
        }
        found = set()
        for page in self._scan.pages(spans):
            for record in page.records:
                request_id = sent_by(record.headers, redrive_id)
                if request_id is not None:
                    found.add(request_id)
        return found

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._scan.close()

    def _marked_s(self, topic: str) -> float:
        return self._marks[topic][0] if topic in self._marks else float("-inf")
