"""`NotSent` of an id that the caller gave, where Redis may have forgotten an earlier send of it."""

from collections.abc import Callable

import pytest

from feedback.errors import NotSent, SendUnknown
from feedback.records.envelope import Record
from feedback.status import State
from producer_client import Client, Submission
from producer_client.sending import sent_before
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

Records = Callable[[], list[Record]]
# Beyond what a machine stands still: the word is `SendUnknown` where Redis does not answer in time.
PATIENT = {"timeout_s": 30}


@pytest.fixture
def cut_off(make_client: MakeClient, refusing: str) -> Client:
    """Return a client whose Kafka is away."""
    return make_client(kafka={"bootstrap_servers": refusing}, redis=PATIENT, send_timeout_s=2)


@pytest.fixture
def elsewhere(
    monkeypatch: pytest.MonkeyPatch, make_client: MakeClient, refusing: str
) -> Callable[[], Client]:
    """Return what makes a client of another process, whose Kafka is away."""

    def make() -> Client:
        monkeypatch.setattr(sent_before, "_of_groups", {})
        return make_client(kafka={"bootstrap_servers": refusing}, redis=PATIENT, send_timeout_s=2)

    return make


def _beat(worker: Worker, *, is_first: bool = False) -> None:
    worker.store.agree_on_contents("the journal", is_first=is_first)


def test_an_id_that_this_process_sent_and_redis_forgot_is_unknown_by_whichever_client(
    client: Client, cut_off: Client, worker: Worker, records: Records
) -> None:
    client.send(b"v", request_id="order-7")
    worker.lose_all()
    with pytest.raises(SendUnknown, match="this process did, and Redis has forgotten it"):
        cut_off.send(b"v", request_id="order-7")
    assert worker.traces() == []
    assert len(records()) == 1
    results = list(cut_off.send_many([Submission(b"v", request_id="order-7"), Submission(b"v")]))
    assert [type(one.error) for one in results] == [SendUnknown, NotSent]


def test_who_finds_what_it_sent_itself_gone_says_not_sent_of_no_given_id(
    client: Client, cut_off: Client, worker: Worker
) -> None:
    client.send(b"v")
    with pytest.raises(NotSent):
        cut_off.send(b"v", request_id="order-7")
    worker.lose_all()
    with pytest.raises(SendUnknown, match="forgotten what this process has sent"):
        cut_off.send(b"v", request_id="order-7")
    with pytest.raises(NotSent):
        cut_off.send(b"v")


def test_what_another_process_sent_is_unknown_once_a_worker_has_seen_that_redis_forgot(
    client: Client, worker: Worker, elsewhere: Callable[[], Client]
) -> None:
    _beat(worker, is_first=True)
    client.send(b"v", request_id="order-7")
    with pytest.raises(NotSent):
        elsewhere().send(b"v", request_id="order-8")
    worker.lose_all()
    _beat(worker)
    cut_off = elsewhere()
    with pytest.raises(SendUnknown, match="no further back than"):
        cut_off.send(b"v", request_id="order-7")
    assert cut_off.status("order-7").state is State.UNKNOWN


def test_a_witness_that_was_seen_and_is_gone_says_that_redis_was_emptied(
    worker: Worker, elsewhere: Callable[[], Client]
) -> None:
    _beat(worker, is_first=True)
    cut_off = elsewhere()
    with pytest.raises(NotSent):
        cut_off.send(b"v", request_id="order-7")
    worker.lose_all()
    with pytest.raises(SendUnknown, match="Redis was emptied"):
        cut_off.send(b"v", request_id="order-7")


def test_what_was_forgotten_longer_ago_than_any_deadline_can_run_no_more(
    worker: Worker, elsewhere: Callable[[], Client]
) -> None:
    _beat(worker)
    name = worker.store.memory(None).name
    worker.store.redis.set(worker.store.witness_key, f"{name} 1000")
    with pytest.raises(NotSent):
        elsewhere().send(b"v", request_id="order-7")
