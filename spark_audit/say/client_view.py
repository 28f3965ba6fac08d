"""The statuses in Redis of the requests on the page, as their clients see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from feedback.errors import RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import Status
from spark_audit.findings import Finding, FindingRow
from spark_audit.judge.status_check import BATCH
from spark_audit.say.wording import when

_LOG = EventLog("onceward.audit")


def told_of(settings: Settings, first: Mapping[Finding, Sequence[FindingRow]]) -> dict[str, str]:
    """Return the statuses of these requests as text, by id; of none when it is away."""
    ids = list(dict.fromkeys(row.request_id for rows in first.values() for row in rows))
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    with closing(store):
        try:
            statuses = [one for batch in _batches(ids) for one in store.read_many(batch)]
        except RedisUnavailable as error:
            _LOG.warning("statuses.not_shown", reason=str(error))
            return {}
    return {one.request_id: status_words(one) for one in statuses}


def status_words(status: Status) -> str:
    """Return a status in a line.

    >>> since = 1_795_132_800_000
    >>> status_words(Status("r", State.RUNNING, attempt=1, generation=2, updated_at=since))
    'RUNNING, attempt 1, generation 2, since 2026-11-20 00:00:00'
    """
    if status.state is State.UNKNOWN:
        return "nothing (UNKNOWN)"
    words = [str(status.state)]
    words += [status.code] if status.code else []
    words += [f"attempt {status.attempt}", f"generation {status.generation}"]
    words += [] if status.updated_at is None else [f"since {when(status.updated_at)}"]
    return ", ".join(words)


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + BATCH] for at in range(0, len(ids), BATCH))
