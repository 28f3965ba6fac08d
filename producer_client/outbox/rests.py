"""Topics that are left alone for a while, and those that Kafka has not known for too long. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

REST_S = (0.25, 2.0)
# Asking for a topic that is not there holds up the others.
UNKNOWN_REST_S = 5.0


@dataclass(slots=True)
class _Rest:
    failures: int
    until_s: float
    unknown_since_s: float | None


class Rests:
    """Remembers which topics failed; times are monotonic.

    Args:
        unknown_s: a topic that Kafka does not know for so long, its rows are parked.
    """

    def __init__(self, *, unknown_s: float) -> None:
        self._unknown_s = unknown_s
        self._rests: dict[str, _Rest] = {}

    def note(
        self,
        *,
        sent: Collection[str],
        away: Mapping[str, str],
        unknown: Collection[str],
        now_s: float,
    ) -> tuple[list[str], list[str]]:
        """Note what became of a batch; return the topics that are newly away, and those back.

        Args:
            sent: topics that have taken something.
            away: topics that have not, with the reason.
            unknown: those of them that Kafka says it does not know.
        """
        back = [topic for topic in sent if topic not in away and topic in self._rests]
        self.forget(back)
        new = [topic for topic in away if topic not in self._rests]
        for topic in away:
            known = self._rests.get(topic)
            failures = 0 if known is None else known.failures
            shortest_s, longest_s = REST_S
            rest_s = min(longest_s, shortest_s * 2 ** min(failures, 10))
            since_s = None if known is None else known.unknown_since_s
            if topic in unknown:
                rest_s = min(UNKNOWN_REST_S, self._unknown_s)
            if topic not in unknown:
                # Only Kafka's own word counts, and only while it is not away.
                since_s = None
            elif since_s is None:
                since_s = now_s
            self._rests[topic] = _Rest(failures + 1, now_s + rest_s, since_s)
        return new, back

    def resting(self, now_s: float) -> list[str]:
        """Return the topics that are not to be tried now."""
        return [topic for topic, one in self._rests.items() if one.until_s > now_s]

    def lost(self, now_s: float) -> set[str]:
        """Return the topics whose rows are to be parked."""
        return {
            topic
            for topic, one in self._rests.items()
            if one.unknown_since_s is not None and now_s - one.unknown_since_s >= self._unknown_s
        }

    def forget(self, topics: Collection[str]) -> None:
        """Let these be tried as if nothing had been: their rows are parked."""
        for topic in topics:
            self._rests.pop(topic, None)

    def due_in_s(self, now_s: float) -> float | None:
        """Return when the first is to be tried again; None when none rests."""
        due = [one.until_s - now_s for one in self._rests.values()]
        return max(0.0, min(due)) if due else None

    @property
    def away(self) -> list[str]:
        """The topics that failed when they were tried last."""
        return list(self._rests)
