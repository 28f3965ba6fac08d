"""Another program that writes orders within transactions of Kafka: only committed ones exist."""

from __future__ import annotations

from feedback.clock import monotonic_s
from feedback.errors import NotSent
from feedback.records.envelope import REQUEST_ID
from producer_client.submission import encode_value
from tests.chaos.figure import Figure
from tests.chaos.orders import Order
from tests.chaos.pace import Rate
from tests.chaos.row import LIGHT, JournalKind, Row
from tests.chaos.scene import Scene
from tests.transactions import Transactions

WORKERS = 2
RATE = 15.0
IN_ONE = 10
# Of the numbers of orders, behind those of the load.
FIRST = 1_000_000
STAYS_OPEN_S = 1.5


def transactions(scene: Scene) -> list[Figure]:
    """Write orders in transactions that stay open for a while, and are aborted or committed."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    aborted, too_early = 0, 0
    with Transactions(scene.place.kafka) as producer:
        for number in range(scene.size(20, short=5)):
            orders = [scene.orders.order(FIRST + number * IN_ONE + one) for one in range(IN_ONE)]
            sent_s = monotonic_s()
            for order in orders:
                _write(scene, producer, order, is_first=order is orders[0])
            scene.pause(STAYS_OPEN_S)
            too_early += _begun(scene, orders)
            is_aborted = scene.random.random() < 0.5 or number == 0
            if is_aborted:
                producer.abort()
                aborted += IN_ONE
            else:
                producer.commit()
            for order in orders:
                error = NotSent(order.request_id, "aborted") if is_aborted else None
                scene.clients.take_over(order, sent_s=sent_s, error=error)
    return [
        Figure("orders in aborted transactions", aborted, least=1),
        Figure("runs begun before the transaction had ended", too_early, most=0),
    ]


def _write(scene: Scene, producer: Transactions, order: Order, *, is_first: bool) -> None:
    submission = scene.clients.submission(order)
    assert isinstance(submission.key, str)
    value = encode_value(submission.value)
    assert value is not None
    given = {
        "key": submission.key.encode(),
        "headers": [(REQUEST_ID, order.request_id.encode())],
        "partition": None,
    }
    write = producer.write if is_first else producer.go_on
    write(scene.place.topics[order.kind], value, **given)


def _begun(scene: Scene, orders: list[Order]) -> int:
    begun = {one.request_id for one in scene.bank_account().begins}
    return sum(order.request_id in begun for order in orders)


ROWS = (
    Row(
        "kafka-transactions",
        "another program's transactions, open for a while, then aborted or committed",
        JournalKind.POSTGRES,
        transactions,
        settings=LIGHT,
    ),
)
