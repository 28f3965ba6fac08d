"""Remembers topics that rest for a while, and those that Kafka has not known for too long. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from feedback.doubling import doubled

REST_S = (0.25, 2.0)
# A person has to allow it, and each try costs a connection.
FORBIDDEN_REST_S = (2.0, 60.0)


@dataclass(slots=True)
class _Rest:
    failures: int
    until_s: float
    unknown_since_s: float | None
    is_lost: bool
    is_forbidden: bool


class Cooldowns:
    """Remembers which topics failed; times are monotonic.

    Args:
        unknown_s: after so long the rows of a topic that Kafka does not know are parked.
    """

    def __init__(self, *, unknown_s: float) -> None:
        self._unknown_s = unknown_s
        self._cooldowns: dict[str, _Rest] = {}

    def note(
        self,
        *,
        sent: Collection[str],
        away: Collection[str],
        unknown: Collection[str],
        forbidden: Collection[str],
        now_s: float,
    ) -> tuple[list[str], list[str]]:
        """Note the results of a batch; return the topics that are newly away, and those back.

        Args:
            sent: topics that have taken a record.
            away: topics that have taken none.
            unknown: those of `away` that Kafka does not know.
            forbidden: those of `away` that this user may not write to.
        """
        back = [topic for topic in sent if topic not in away and topic in self._cooldowns]
        self.forget(back)
        new = [topic for topic in away if topic not in self._cooldowns]
        for topic in away:
            known = self._cooldowns.get(topic)
            failures = 1 if known is None else known.failures + 1
            # It stays forbidden until it has taken a record: a silent Kafka says nothing of it.
            is_forbidden = topic in forbidden or (known is not None and known.is_forbidden)
            rest_s = doubled(*(FORBIDDEN_REST_S if is_forbidden else REST_S), failures)
            since_s = None if known is None else known.unknown_since_s
            if topic not in unknown:
                # Only Kafka's own answer counts, and only while Kafka is there.
                since_s = None
            elif since_s is None:
                since_s = now_s
            is_lost = since_s is not None and now_s - since_s >= self._unknown_s
            self._cooldowns[topic] = _Rest(failures, now_s + rest_s, since_s, is_lost, is_forbidden)
        return new, back

    def resting(self, now_s: float) -> list[str]:
        """Return the topics that are not to be tried now, together with others.

        A lost topic is never tried, and a forbidden one by itself.
        """
        return [
            topic
            for topic, one in self._cooldowns.items()
            if one.until_s > now_s or one.is_lost or one.is_forbidden
        ]

    def due(self, now_s: float) -> list[str]:
        """Return the topics that failed, and are due for another try."""
        return [topic for topic in self._cooldowns if topic not in self.resting(now_s)]

    def forbidden(self, now_s: float) -> list[str]:
        """Return the forbidden topics that are due for another try."""
        return [
            topic
            for topic, one in self._cooldowns.items()
            if one.is_forbidden and one.until_s <= now_s
        ]

    def lost(self) -> list[str]:
        """Return the topics that Kafka did not know for too long: their rows are parked."""
        return [topic for topic, one in self._cooldowns.items() if one.is_lost]

    def forget(self, topics: Collection[str]) -> None:
        """Forget that these topics have failed."""
        for topic in topics:
            self._cooldowns.pop(topic, None)

    def due_in_s(self, now_s: float) -> float | None:
        """Return the seconds until the next try; None when no topic rests."""
        due = [one.until_s - now_s for one in self._cooldowns.values() if not one.is_lost]
        return min((left_s for left_s in due if left_s > 0), default=None)

    @property
    def away(self) -> list[str]:
        """The topics whose last try failed."""
        return list(self._cooldowns)
