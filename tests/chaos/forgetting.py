"""A journal that is pruned, beside a group whose offsets are set back to the beginning."""

from __future__ import annotations

from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from feedback.clock import monotonic_s
from feedback.records.envelope import REQUEST_ID
from producer_client.submission import encode_value
from tests.chaos.account import Forgotten
from tests.chaos.declarations import Declaration
from tests.chaos.figure import Figure
from tests.chaos.orders import Order
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.demo.topic import PARTITIONS
from tests.offsets import commit

WORKERS = 2
RATE = 15.0
# Of the numbers of orders, behind those of the load.
FIRST = 1_000_000
DEADLINE_S = 8.0
NO_TIME = -1
PRUNED_WITHIN_S = 60.0


def offsets_reset(scene: Scene) -> list[Figure]:
    """Prune what is past its deadline, and read all topics again from their beginning."""
    file = scene.place.folder / "declaration.json"
    file.write_text(Declaration("marked", deadline_s=DEADLINE_S).as_json())
    variables = {"CHAOS_DECLARATION": str(file)}
    scene.fleet.start(WORKERS, variables=variables)
    scene.clients.start(Rate(RATE))
    scene.flow(1.0)
    foreign = [scene.orders.order(FIRST + one) for one in range(scene.size(400, short=40))]
    _write(scene, foreign)
    scene.await_told()
    scene.fleet.end_all(DRAIN_TIMEOUT_S)
    scene.pause(DEADLINE_S)
    before = len(scene.journal.states())
    scene.run_to_its_end(scene.place.prune_command(), within_s=PRUNED_WITHIN_S)
    pruned = before - len(scene.journal.states())
    _set_back(scene)
    scene.fleet.start(WORKERS, variables=variables)
    scene.clients.start(Rate(RATE))
    scene.flow(scene.size(10.0, short=5.0))
    return [Figure("rows pruned", pruned, least=1)]


def _write(scene: Scene, orders: list[Order]) -> None:
    """Write orders as another program does: without a deadline, and half of them without a time."""
    with KafkaProducer(bootstrap_servers=scene.place.kafka) as producer:
        for number, order in enumerate(orders):
            submission = scene.clients.submission(order)
            sent_s = monotonic_s()
            assert isinstance(submission.key, str)
            producer.send(
                submission.topic,
                key=submission.key.encode(),
                value=encode_value(submission.value),
                headers=[(REQUEST_ID, order.request_id.encode())],
                timestamp_ms=NO_TIME if number % 2 else None,
            ).get(timeout=PRUNED_WITHIN_S)
            scene.clients.take_over(order, sent_s=sent_s)


def _set_back(scene: Scene) -> None:
    with KafkaAdminClient(bootstrap_servers=scene.place.kafka) as admin:
        for name in scene.place.topics.values():
            for number in range(PARTITIONS):
                commit(admin, scene.place.name, TopicPartition(name, number), 0)


ROWS = (
    Row(
        "offsets-reset",
        "the journal pruned, and all topics read again from their beginning",
        JournalKind.SQLITE,
        offsets_reset,
        settings={"worker": {"handlers": ["tests.chaos.deployed"], "processes": 1}},
        forgotten=Forgotten.ROWS,
    ),
)
