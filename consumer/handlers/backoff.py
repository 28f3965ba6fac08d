"""Back-offs: how long to wait before the first, second, third retry. Pure, but for the dice given.

Each knows the delays that its retry topics are named for. A delay that is drawn goes to the topic
of the shortest of these that is not shorter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

Duration = str | int | float

# Longer than any deadline makes sense: a typing error, and more than a topic would keep.
LONGEST_MS = 30 * 24 * 3_600_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def milliseconds(duration: Duration) -> int:
    """Return a duration in whole milliseconds.

    Args:
        duration: a text like `1.5s`, or seconds.

    Raises:
        ValueError: it is none, negative, or longer than 30 days.

    >>> milliseconds("2m"), milliseconds(0.25)
    (120000, 250)
    """
    if isinstance(duration, str):
        found = _TEXT.fullmatch(duration.strip())
        if found is None:
            raise ValueError(f"{duration!r}: write a duration like 500ms, 5s, 2m or 1h")
        ms = round(float(found[1]) * _UNITS_MS[found[2]])
    elif isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise ValueError(f"{duration!r}: give a duration like 5s, or seconds")
    elif not 0 <= duration <= LONGEST_MS / 1000:
        raise ValueError(f"{duration!r}: a duration is 0 s to 30 days")
    else:
        ms = round(duration * 1000)
    if ms > LONGEST_MS:
        raise ValueError(f"{duration!r}: a duration is 0 s to 30 days")
    return ms


def delay_name(ms: int) -> str:
    """Return milliseconds in the largest unit that holds them whole.

    >>> delay_name(120_000), delay_name(90_000), delay_name(1_500), delay_name(0)
    ('2m', '90s', '1500ms', '0ms')
    """
    for unit in ("h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms}ms"


MOST_TRIES = 1000
_TIER = re.compile(r"\s*([^\s]+?)(?:\s*x\s*([0-9]+))?\s*")


class Backoff(Protocol):
    """How long to wait before which retry.

    Attributes:
        tries: how many retries there are at most.
        topic_delays_ms: the delays that have a topic, ascending.
    """

    @property
    def tries(self) -> int: ...
    @property
    def topic_delays_ms(self) -> tuple[int, ...]: ...
    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry, counted from 1."""
        ...


@dataclass(frozen=True)
class Tiers:
    """So many retries after one delay, then so many after the next: `("1s", 2), ("5s", 2)`."""

    tiers: tuple[tuple[int, int], ...]

    def __init__(self, *tiers: tuple[Duration, int]) -> None:
        if not tiers:
            raise ValueError('name a delay, like "1s"')
        known = tuple((milliseconds(delay), _checked(tries)) for delay, tries in tiers)
        object.__setattr__(self, "tiers", known)
        _checked(self.tries)

    @classmethod
    def parse(cls, text: str) -> Tiers:
        """Return the tiers of a text.

        Raises:
            ValueError: it cannot be read.

        >>> Tiers.parse("1s x 2, 5s x 2")
        Tiers(tiers=((1000, 2), (5000, 2)))
        >>> Tiers.parse("20ms")
        Tiers(tiers=((20, 1),))
        """
        found = [_TIER.fullmatch(part) for part in text.split(",")]
        if not all(found):
            raise ValueError(f'{text!r}: write tiers like "1s x 2, 5s x 2"')
        return cls(*((one[1], int(one[2] or 1)) for one in found if one is not None))

    @property
    def tries(self) -> int:
        """How many retries there are."""
        return sum(tries for _, tries in self.tiers)

    @property
    def topic_delays_ms(self) -> tuple[int, ...]:
        """The delays, ascending."""
        return tuple(sorted({delay for delay, _ in self.tiers}))

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry, counted from 1."""
        for delay, tries in self.tiers:
            if retry <= tries:
                return delay
            retry -= tries
        return self.tiers[-1][0]


class Fixed(Tiers):
    """The same delay before each retry."""

    def __init__(self, delay: Duration, *, tries: int) -> None:
        super().__init__((delay, tries))


class Immediately(Tiers):
    """No delay at all."""

    def __init__(self, *, tries: int) -> None:
        super().__init__((0, tries))


@dataclass(frozen=True)
class Exponential:
    """Each delay is the one before times `factor`, up to `most`.

    Args:
        first: before the first retry.
        tries: how many retries.
        factor: 1 or more.
        most: the longest delay.
        jitter: which share of each delay is left to chance: with 0.5 a delay is drawn evenly
            between a half and the whole of it, so that requests that failed together do not come
            back together. 0 is none.
    """

    first_ms: int
    tries: int
    factor: float
    most_ms: int
    jitter: float

    def __init__(
        self,
        first: Duration,
        *,
        tries: int,
        factor: float = 2.0,
        most: Duration = "1h",
        jitter: float = 0.0,
    ) -> None:
        if not 1 <= factor < math.inf:
            raise ValueError(f"factor={factor!r}: a delay does not become shorter")
        if not 0 <= jitter <= 1:
            raise ValueError(f"jitter={jitter!r}: a share of the delay, 0 to 1")
        known = (milliseconds(first), _checked(tries), factor, milliseconds(most), jitter)
        if known[0] > known[3]:
            raise ValueError(f"first={first!r} is longer than most={most!r}")
        for name, value in zip(self.__dataclass_fields__, known, strict=True):
            object.__setattr__(self, name, value)

    @property
    def topic_delays_ms(self) -> tuple[int, ...]:
        """The delays before chance has its share, ascending."""
        return tuple(sorted({self._whole_ms(retry) for retry in range(1, self.tries + 1)}))

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry, counted from 1."""
        whole_ms = self._whole_ms(retry)
        return round(whole_ms * (1 - self.jitter * random.random()))

    def _whole_ms(self, retry: int) -> int:
        # In logarithms first: a factor to a high power is more than a float holds.
        if self.first_ms and math.log(self.first_ms) + (retry - 1) * math.log(self.factor) > 40:
            return self.most_ms
        return min(self.most_ms, round(self.first_ms * self.factor ** (retry - 1)))


@dataclass(frozen=True)
class Uniform:
    """Any delay from `low` to `high`, each as likely."""

    low_ms: int
    high_ms: int
    tries: int

    def __init__(self, low: Duration, high: Duration, *, tries: int) -> None:
        known = (milliseconds(low), milliseconds(high), _checked(tries))
        if known[0] > known[1]:
            raise ValueError(f"low={low!r} is longer than high={high!r}")
        for name, value in zip(self.__dataclass_fields__, known, strict=True):
            object.__setattr__(self, name, value)

    @property
    def topic_delays_ms(self) -> tuple[int, ...]:
        """The longest delay."""
        return (self.high_ms,)

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry."""
        return random.randint(self.low_ms, self.high_ms)


@dataclass(frozen=True)
class Custom:
    """The delay that a function returns, up to `most`: seconds before a retry, counted from 1."""

    function: Callable[[int], float]
    tries: int
    most_ms: int

    def __init__(
        self, function: Callable[[int], float], *, tries: int, most: Duration = "1h"
    ) -> None:
        if not callable(function):
            raise ValueError(f"{function!r} is no function of the retry's number")
        known = (function, _checked(tries), milliseconds(most))
        for name, value in zip(self.__dataclass_fields__, known, strict=True):
            object.__setattr__(self, name, value)

    @property
    def topic_delays_ms(self) -> tuple[int, ...]:
        """The longest delay."""
        return (self.most_ms,)

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry; the longest where the function says none."""
        try:
            delay_s = float(self.function(retry))
        # The user's function runs in the worker's loop: it must not end the worker.
        except Exception:
            return self.most_ms
        return round(min(max(0.0, delay_s), self.most_ms / 1000) * 1000)


def topic_delay_ms(backoff: Backoff, delay_ms: int) -> int:
    """Return the delay that the topic for this one is named for.

    >>> topic_delay_ms(Tiers.parse("1s, 5s"), 700)
    1000
    """
    longer = (one for one in backoff.topic_delays_ms if one >= delay_ms)
    return next(longer, backoff.topic_delays_ms[-1])


def _checked(tries: int) -> int:
    if isinstance(tries, bool) or not isinstance(tries, int) or not 1 <= tries <= MOST_TRIES:
        raise ValueError(f"{tries!r} tries: 1 to {MOST_TRIES}")
    return tries
