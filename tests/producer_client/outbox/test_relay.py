"""A relay on real servers: what is committed reaches Kafka, in order, as it was written."""

from collections.abc import Callable

from sqlalchemy import Engine

from feedback.envelope import Record, decode_headers
from feedback.settings import Settings
from feedback.status import State
from producer_client import Client
from tests.eventually import eventually
from tests.producer_client.outbox.conftest import Rows, relaying

Records = Callable[[], list[Record]]


def sent(rows: Rows, count: int) -> bool:
    return sum(one["state"] == "SENT" for one in rows()) == count


def test_a_committed_request_is_sent_as_it_was_written_and_known_to_redis(
    settings: Settings, engine: Engine, rows: Rows, records: Records
) -> None:
    headers = [("traceparent", b"00-ab-cd-01"), ("bytes", b"\x00\xff"), ("bytes", b"")]
    with Client(settings) as client, relaying(settings):
        with engine.begin() as connection:
            handle = client.send(
                {"amount": 5}, key="card-1", request_id="a", headers=headers, connection=connection
            )
        eventually(lambda: sent(rows, 1), timeout_s=20)
        assert handle.status().state is State.PENDING
        assert client.store.kept_payload("a") == handle.payload
        assert client.store.redis.zscore(client.store.deadlines_key, "a") is not None
    (record,) = records()
    (row,) = rows()
    assert (record.key, record.value) == (b"card-1", b'{"amount":5}')
    assert record.headers[:3] == tuple(headers)
    assert decode_headers(record)[:] == ("a", 1, handle.deadline_at)
    assert (row["partition"], row["offset"]) == (record.partition, record.offset)
