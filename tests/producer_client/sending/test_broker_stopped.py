"""A broker that stops between two sends: nobody knows, nobody hangs, a resend is harmless."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from feedback.clock import monotonic_s
from feedback.errors import SendUnknown
from feedback.records.envelope import decode_headers
from feedback.status import State
from onceward.servers.launch import RunningServer
from producer_client import Client, Submission
from tests.paused import paused
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.producer_client.records import records_of
from tests.rounds import in_time
from tests.stack import Stack

pytestmark = pytest.mark.waits

TOPIC = "stopped"
TIMEOUT_S = 3.0


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningServer]:
    """Yield a broker that these tests alone may stop, with one topic."""
    stack = Stack.start(redis=False, postgres=False, environ={})
    with stack as servers:
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
            admin.wait_for_topics([TOPIC])
        yield stack.running["kafka"]


@pytest.fixture
def connected(
    request: pytest.FixtureRequest, broker: RunningServer, make_client: MakeClient, left_open: None
) -> Client:
    """Return a client that has sent to the broker already."""
    client = make_client(
        kafka={"bootstrap_servers": broker.address},
        topic=TOPIC,
        send_timeout_s=TIMEOUT_S,
        durability=getattr(request, "param", ""),
        min_insync_replicas=1,
    )
    client.send(b"while it runs")
    return client


def _attempts(broker: RunningServer, request_id: str) -> list[int]:
    envelopes = [decode_headers(record) for record in records_of(broker.address, TOPIC)]
    return [one.attempt for one in envelopes if one.request_id == request_id]


# That of "safe" is idempotent, and kafka-python's would never send again after an unknown outcome.
@pytest.mark.parametrize(
    ("connected", "is_idempotent"),
    [("", False), ("safe", True)],
    ids=["plain", "safe"],
    indirect=["connected"],
)
def test_the_send_is_unknown_in_time_stays_pending_and_can_be_sent_again(
    broker: RunningServer, connected: Client, is_idempotent: bool, worker: Worker, group: str
) -> None:
    numbers = itertools.count()

    def send() -> str:
        request_id = f"again-{group}-{next(numbers)}"
        with pytest.raises(SendUnknown, match="Kafka did not acknowledge") as caught:
            connected.send(b"v", request_id=request_id)
        assert caught.value.request_id == request_id
        return request_id

    with paused(broker.pid):
        request_id = in_time(send, limit_s=TIMEOUT_S + 1)
        assert connected.status(request_id).state is State.PENDING
        assert worker.store.kept_payload(request_id) is not None
        assert worker.looked_at(request_id) is not None
    connected.send(b"v", request_id=request_id)
    assert connected.status(request_id).attempt == 2
    attempts = _attempts(broker, request_id)
    assert {*attempts} in ({2}, {1, 2})
    # The library's clock for a record begins a moment after the client's. So the first may go out
    # once more when the broker goes on, and only of an idempotent producer Kafka drops it.
    assert not is_idempotent or len(attempts) == len({*attempts})


def test_of_many_each_is_told_as_unknown_in_time(broker: RunningServer, connected: Client) -> None:
    with paused(broker.pid):

        def send() -> None:
            results = list(connected.send_many(Submission(b"v") for _ in range(200)))
            assert [result.unknown for result in results] == [True] * 200

        in_time(send, limit_s=TIMEOUT_S + 1.5)


def test_closing_is_bounded_while_a_record_is_under_way(
    broker: RunningServer, connected: Client, at_once: Callable[..., object]
) -> None:
    with paused(broker.pid):
        at_once(connected.send, b"v")
        began_s = monotonic_s()
        connected.close()
        # One that waits for the broker has no bound: the broker stands still until it is closed.
        assert monotonic_s() - began_s < 10 * TIMEOUT_S
