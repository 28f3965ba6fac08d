"""The records that redrives have sent back into the topics of origin, read again and again.

Where no journal is asked they are all that tells of another redrive. What it sends after the last
look before a write is sent twice. Both look once more behind their last writes, so that at least
the later one finds the other's records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from consumer.dlq.listing import SeenNames
from consumer.dlq.redrive.record import sent_by, sent_count
from feedback.kafka.scan import KafkaScan, resumed
from feedback.kafka.values import Partition
from feedback.records.envelope import Headers

# So many ids that were sent twice are remembered for the answer.
MOST_TWICE = 1000


class SentTraces:
    """Knows the letters that were sent back. Belongs to one thread.

    Args:
        scan: over a connection of its own; it reads uncommitted records as well.
        redrive_id: this redrive, whose records are its own.

    Attributes:
        twice: ids of letters that another redrive has sent beside this one, the first of them.
    """

    def __init__(self, scan: KafkaScan, *, redrive_id: str) -> None:
        self._scan = scan
        self._redrive_id = redrive_id
        self._topics: frozenset[str] = frozenset()
        self._positions: Mapping[Partition, int] = {}
        self._others, self._own = SeenNames(), SeenNames()
        self.twice: list[str] = []
        self.twice_count = 0

    def begin(self, topics: Collection[str], *, since_ms: int | None) -> None:
        """Read these topics.

        Args:
            since_ms: epoch ms; no letter to send is older.
        """
        self._topics = frozenset(topics)
        spans = self._scan.spans(self._topics, since_ms=since_ms)
        self._positions = {place: span.begin for place, span in spans.items()}
        self.look()

    def look(self) -> None:
        """Read what was written since."""
        spans = resumed(self._scan.spans(self._topics), self._positions)
        for page in self._scan.pages(spans):
            for record in page.records:
                self._meet(record.headers)
        self._positions = {place: span.end for place, span in spans.items()}

    def has(self, request_id: str, count: int) -> bool:
        """Whether another redrive has sent a letter back."""
        return _name(request_id, count) in self._others

    def sent(self, request_id: str, count: int) -> None:
        """Note that this redrive has sent a letter back."""
        self._own.add([_name(request_id, count)])

    def close(self) -> None:
        """Forget all."""
        self._others.close()
        self._own.close()

    def _meet(self, headers: Headers) -> None:
        found = sent_count(headers)
        if found is None or sent_by(headers, self._redrive_id) is not None:
            return
        name = _name(*found)
        (is_new,) = self._others.add([name])
        if is_new and name in self._own:
            self.twice_count += 1
            self.twice += [found[0]] if len(self.twice) < MOST_TWICE else []


def _name(request_id: str, count: int) -> str:
    return f"{count} {request_id}"
