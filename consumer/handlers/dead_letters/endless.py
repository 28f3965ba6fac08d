"""The back-off of letters that are handled again until it works: up to ten minutes, without end."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from consumer.handlers.backoff import Exponential

# 1 s, 4 s, 16 s, 64 s, 256 s, 10 min: each has a topic, and more topics would be no better.
_STEPS = Exponential("1s", tries=6, factor=4.0, most="10m")


@dataclass(frozen=True)
class Endless:
    """Each delay is four times the one before, up to ten minutes, as often as it takes."""

    tries: int = 2**53
    topic_delays_ms: tuple[int, ...] = _STEPS.topic_delays_ms

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry, counted from 1."""
        return _STEPS.delay_ms(min(retry, _STEPS.tries), random)


ENDLESS = Endless()
