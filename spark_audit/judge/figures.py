"""A day's figures: the counts of Spark, added up. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spark_audit.findings import REQUEST_FINDINGS, Finding

HOUR_MS = 3_600_000
# Percentiles cannot be merged; the counts of a log histogram can.
BUCKETS_PER_OCTAVE = 8
# The state of a request without a journal row.
NO_ROW = "NO_ROW"
# States that a client was told and that are no success. Lost requests count as errors as well.
ERROR_STATES = ("FAILED", "IN_DOUBT", "EXPIRED")
TOP = 10

_PENDING, _IN_FLIGHT, _NEEDED = "is_pending", "is_in_flight", "resend_needed"
FLAGS = (*(finding.value for finding in REQUEST_FINDINGS), _PENDING, _IN_FLIGHT, _NEEDED)
KEYS = ("hour", "bucket", "state", "flags", "code", "owner")
LEVELS = (("hour", "bucket"), ("state", "flags"), ("code",), ("owner",))


def _level(names: tuple[str, ...]) -> int:
    # Spark's grouping id: a bit for each key that a row was not counted by, the first key highest.
    return sum(1 << bit for bit, key in enumerate(reversed(KEYS)) if key not in names)


BY_HOUR, BY_STATE, BY_CODE, BY_OWNER = map(_level, LEVELS)


class Counted(NamedTuple):
    """One row of the counts that Spark returns: a field outside its `level` is None.

    Args:
        level: Spark's grouping id, which names the columns of the group.
        hour: since the window's begin; None for requests whose first record lies outside.
        bucket: of the latency histogram; None for requests without an end.
        flags: one bit for each of the judged flags that is true.
    """

    level: int
    hour: int | None
    bucket: int | None
    state: str | None
    flags: int | None
    code: str | None
    owner: str | None
    requests: int
    errors: int


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of the window; `latencies` counts requests by histogram bucket."""

    requests: int
    errors: int
    latencies: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker's share of the requests."""

    worker: str
    requests: int
    errors: int


@dataclass(frozen=True, slots=True)
class Figures:
    """A day in numbers.

    Args:
        resends_needed: requests that only a later sending brought to where they are.
        outside: requests whose first record lies outside the window: carried over, or orphans.
        latencies: all requests that ended, by histogram bucket.
        codes: the commonest codes of errors, the commonest first.
        workers: those with the most errors, the worst first.
    """

    requests: int
    errors: int
    pending: int
    in_flight: int
    resends_needed: int
    outside: int
    by_state: Mapping[str, int]
    findings: Mapping[Finding, int]
    hours: tuple[Hour, ...]
    latencies: Mapping[int, int]
    codes: tuple[tuple[str, int], ...]
    workers: tuple[WorkerShare, ...]


def tallied(rows: Iterable[Counted], *, hours: int) -> Figures:
    """Return the figures that the counts add up to.

    Args:
        hours: of the window.
    """
    by_state: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    requests: Counter[int | None] = Counter()
    errors: Counter[int | None] = Counter()
    latencies: dict[int | None, Counter[int]] = {}
    codes: list[tuple[str, int]] = []
    workers: list[WorkerShare] = []
    for row in rows:
        if row.level == BY_HOUR:
            requests[row.hour] += row.requests
            errors[row.hour] += row.errors
            if row.bucket is not None:
                latencies.setdefault(row.hour, Counter())[row.bucket] += row.requests
        elif row.level == BY_STATE:
            by_state[row.state or NO_ROW] += row.requests
            for bit, name in enumerate(FLAGS):
                if (row.flags or 0) >> bit & 1:
                    flagged[name] += row.requests
        elif row.level == BY_CODE:
            codes.append((row.code or "", row.errors))
        else:
            workers.append(WorkerShare(row.owner or "", row.requests, row.errors))
    return Figures(
        requests=sum(by_state.values()),
        errors=sum(errors.values()),
        pending=flagged[_PENDING],
        in_flight=flagged[_IN_FLIGHT],
        resends_needed=flagged[_NEEDED],
        outside=requests[None],
        by_state=dict(sorted(by_state.items())),
        findings={finding: flagged[finding.value] for finding in REQUEST_FINDINGS},
        hours=tuple(
            Hour(requests[hour], errors[hour], _sorted(latencies.get(hour, Counter())))
            for hour in range(hours)
        ),
        latencies=_sorted(sum(latencies.values(), Counter())),
        codes=tuple(sorted(codes, key=lambda one: (-one[1], one[0]))),
        workers=tuple(sorted(workers, key=lambda one: (-one.errors, -one.requests, one.worker))),
    )


def quantile_ms(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the latency that `share` of the requests did not exceed; None without latencies.

    It is the upper edge of a bucket, so up to 9 % too high and never too low.

    >>> quantile_ms({80: 99, 160: 1}, 0.5)
    1.12
    """
    rank = math.ceil(sum(histogram.values()) * share)
    seen = 0
    for bucket, count in sorted(histogram.items()):
        seen += count
        if seen >= rank:
            return float(f"{2 ** ((bucket + 1) / BUCKETS_PER_OCTAVE) / 1000:.3g}")
    return None


def _sorted(counts: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(counts.items()))
