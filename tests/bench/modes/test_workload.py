"""The published records, as they are made and as they lie in the topic."""

import json
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from uuid import UUID

from feedback.kafka.scan import KafkaScan
from feedback.records.envelope import REQUEST_ID
from feedback.settings.settings import KafkaSection
from tests.bench.modes.workload import fill, operations
from tests.stack import Servers

FIELDS = "operationId operationDate cardNumber price terminalId additionalData"


def test_an_operation_has_the_published_fields() -> None:
    made = list(islice(operations(10, seed=1), 200))
    for counter, one in enumerate(made):
        value = json.loads(one.value)
        assert list(value) == FIELDS.split()
        assert value["operationId"] == one.operation_id
        assert {UUID(value[name]).version for name in ("operationId", "terminalId")} == {4}
        assert len(value["cardNumber"]) == 16
        assert value["cardNumber"].isdecimal()
        assert 50 <= value["price"] <= 100
        assert datetime.fromisoformat(value["operationDate"]).utcoffset() is not None
        assert value["additionalData"] == str(counter % 10)
    assert len({one.operation_id for one in made}) == len(made)


def test_another_round_has_other_operations() -> None:
    first, again, other = (
        [one.operation_id for one in islice(operations(10, seed=seed), 5)] for seed in (1, 1, 2)
    )
    assert first == again
    assert not set(first) & set(other)


def test_the_topic_has_them_in_order_by_their_key(
    servers: Servers, topic: Callable[..., str]
) -> None:
    name = topic(1)
    fill(servers.kafka, name, 25, cycle=10, seed=3)
    expected = [one.operation_id.encode() for one in islice(operations(10, seed=3), 25)]
    with KafkaScan(KafkaSection(bootstrap_servers=servers.kafka), committed_only=False) as scan:
        records = [one for page in scan.pages(scan.spans([name])) for one in page.records]
    assert [one.key for one in records] == expected
    assert [dict(one.headers)[REQUEST_ID] for one in records] == expected
