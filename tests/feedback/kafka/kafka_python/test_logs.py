"""What kafka-python logs at DEBUG, of a record that is sent and read: nothing of the record."""

import logging
from collections.abc import Callable

import pytest
from kafka import KafkaProducer

from feedback.kafka.reader import RecordReader
from feedback.settings.settings import KafkaSection
from tests.stack import Servers

# No number: the digits of a time in the log may be those of a card.
MARK = "visa4111"
KEY, VALUE, HEADER = (f"{MARK}-{one}".encode() for one in ("key", "value", "header"))
# Of those that tell records, what is heard in any process: `kafka.producer.kafka` is not, once our
# own writer was used there.
TOLD_BY = {"kafka.net.connection", "kafka.producer.sender", "kafka.protocol.parser"}


def test_an_application_that_logs_everything_logs_no_key_value_or_header(
    servers: Servers, topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    name = topic(1)
    caplog.set_level(1)
    caplog.set_level(1, logger="kafka")
    producer = KafkaProducer(bootstrap_servers=servers.kafka)
    sent = producer.send(name, key=KEY, value=VALUE, partition=0, headers=[("card", HEADER)])
    offset = sent.get(timeout=60).offset
    producer.close()
    with RecordReader(KafkaSection(bootstrap_servers=servers.kafka, group="unused")) as reader:
        record = reader.read(name, 0, offset, timeout_s=60)
    assert record is not None and record.value == VALUE
    lines = [one for one in caplog.records if one.levelno <= logging.DEBUG]
    assert {one.name for one in lines} >= TOLD_BY
    assert [one.getMessage() for one in lines if MARK in one.getMessage()] == []
