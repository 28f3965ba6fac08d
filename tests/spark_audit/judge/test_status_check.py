"""Statuses against the journal: which differences are contradictions."""

import pytest

from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import Status
from spark_audit.judge.status_check import Disagreement, ToldRequest, compare, disagrees

READ_AT = 1_000_000
GRACE = 10_000
KEPT_SINCE = 100_000


def _told(state: str | None, *, generation: int = 2, ended_at: int | None = 500_000) -> ToldRequest:
    return ToldRequest("r", state, generation, ended_at)


def _status(state: State, *, generation: int = 2, updated_at: int = 600_000) -> Status:
    return Status("r", state, generation=generation, updated_at=updated_at)


def _later(state: State, *, updated_at: int = 600_000) -> Status:
    return _status(state, generation=3, updated_at=updated_at)


def _just_told(state: State) -> Status:
    return _status(state, generation=1, updated_at=READ_AT - GRACE)


@pytest.mark.parametrize(
    ("told", "status", "expected"),
    [
        (_told("SUCCEEDED"), _status(State.SUCCEEDED), False),
        (_told("SUCCEEDED"), _status(State.FAILED), True),
        (_told("FAILED"), _status(State.SUCCEEDED), True),
        (_told("SUCCEEDED"), _status(State.RUNNING), True),
        (_told("IN_DOUBT"), _status(State.LOST), True),
        # told after the journal was read, or of a run that may have begun after it
        (_told("SUCCEEDED"), _status(State.FAILED, updated_at=READ_AT + 1), False),
        (_told("FAILED"), _later(State.RUNNING, updated_at=READ_AT - GRACE), False),
        # of a run that the journal had granted before it was read, and does not have
        (_told("FAILED"), _later(State.RUNNING, updated_at=READ_AT - GRACE - 1), True),
        (_told("SUCCEEDED"), _later(State.SUCCEEDED), True),
        (_told("CLAIMED", ended_at=None), _later(State.RUNNING), True),
        (_told("RETRYING", ended_at=None), _later(State.SUCCEEDED), True),
        (_told("FAILED"), Status("r", State.RUNNING, generation=3), False),
        # gone: the time of a status is over, or Redis has lost it
        (_told("SUCCEEDED"), Status("r", State.UNKNOWN), True),
        (_told("SUCCEEDED", ended_at=KEPT_SINCE), Status("r", State.UNKNOWN), False),
        # no end in the journal
        (_told("CLAIMED", ended_at=None), _status(State.RUNNING), False),
        (_told("CLAIMED", ended_at=None), _status(State.SUCCEEDED), True),
        (_told("CLAIMED", ended_at=None), Status("r", State.UNKNOWN), False),
        (_told(None, generation=0, ended_at=None), _status(State.LOST, generation=0), False),
        (_told(None, generation=0, ended_at=None), _status(State.FAILED, generation=0), True),
        (_told(None, generation=0, ended_at=None), _status(State.SUCCEEDED, generation=1), True),
        (_told(None, generation=0, ended_at=None), _status(State.RUNNING, generation=1), True),
        (_told(None, generation=0, ended_at=None), _just_told(State.RUNNING), False),
        (_told(None, generation=0, ended_at=None), _just_told(State.SUCCEEDED), True),
    ],
)
def test_only_what_contradicts_the_journal_disagrees(
    told: ToldRequest, status: Status, expected: bool
) -> None:
    limits = {"read_at_ms": READ_AT, "grace_ms": GRACE, "kept_since_ms": KEPT_SINCE}
    assert disagrees(told, status, **limits) is expected


def test_statuses_are_read_in_batches_and_found_in_order(redis_url: str, group: str) -> None:
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    try:
        for number in (3, 700):
            name = f"r{number}"
            store.redis.hset(store.request_key(name), mapping={"status": "FAILED", "generation": 1})
        at = READ_AT - GRACE - 1
        later = store.request_key("later")
        store.redis.hset(later, mapping={"status": "FAILED", "generation": 2, "updated_at": at})
        told = [ToldRequest(f"r{number}", "CLAIMED", 1, None) for number in range(800)]
        told.append(ToldRequest("later", "FAILED", 1, KEPT_SINCE))
        times = {"read_at_ms": READ_AT, "grace_ms": GRACE, "now_ms": READ_AT}
        compared = compare(store, told, **times, ttl_s=lambda _: 0.001)
        assert compared.requests == 801
        assert compared.disagreements == [
            Disagreement("r3", "CLAIMED", "FAILED"),
            Disagreement("r700", "CLAIMED", "FAILED"),
            Disagreement("later", "FAILED", "FAILED (generation 2)"),
        ]
    finally:
        store.close()
