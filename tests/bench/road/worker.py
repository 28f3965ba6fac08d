"""The steps in the worker's main process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.intake import Intake
from consumer.journal import Journal, Work
from consumer.pool import Pool
from consumer.pool.events import Finished
from feedback.redis.store import StatusStore
from feedback.status import FINAL
from tests.bench.road.marks import Ids, marked


def mark_worker() -> None:
    """Let intake, loop, journal, pool and status writer of this process write marks."""
    marked(Intake, "_receive", after=lambda received, _: [("polled", _deliveries(received))])
    marked(StatusStore, "send", after=lambda _, writes, **__: [("accepted", _named(writes))])
    marked(Buffer, "put", before=lambda received: [("committed", _deliveries(received))])
    marked(
        Journal,
        "apply",
        before=lambda work, **_: _work(work, "claiming", "finishing"),
        after=lambda _, work, **__: _work(work, "claimed", "finished"),
    )
    marked(Pool, "dispatch", after=lambda _, jobs: [("dispatched", _named(jobs))])
    marked(Pool, "poll", after=lambda events, _: [("heard", _ended(events))])
    marked(
        StatusStore,
        "write",
        before=lambda writes, **_: [("telling", _final(writes))],
        after=lambda _, writes, **__: [("told", _final(writes))],
    )


def _work(work: Work, claims: str, finishes: str) -> Iterator[tuple[str, Ids]]:
    yield claims, _named(work.claims)
    yield finishes, _named(work.finishes)


def _named(those: Iterable[Any]) -> list[str]:
    return [one.request_id for one in those]


def _deliveries(received: Iterable[Any]) -> list[str]:
    return _named(one for one in received if isinstance(one, Delivery))


def _ended(events: Iterable[Any]) -> list[str]:
    return _named(one for one in events if isinstance(one, Finished))


def _final(writes: Iterable[Any]) -> list[str]:
    return _named(one for one in writes if one.state in FINAL)
