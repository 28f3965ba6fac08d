"""Dead letters that other systems have written, beside those of a group."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from kafka.admin import KafkaAdminClient, NewTopic

from feedback.records.envelope import Headers, Record
from feedback.settings.settings import Settings
from tests.consumer.console.test_pages import HOSTILE
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.samples import record
from tests.consumer.dlq.test_dialects import CONNECT, SMALLRYE, SPRING

VALUE = b'{"amount": 5}'


class Format(NamedTuple):
    """How a system writes its headers.

    Args:
        prefix: of the headers of the place of origin.
        said: the header of the message.
        number: writes an offset.
    """

    headers: Headers
    prefix: str
    said: str
    number: Callable[[int], bytes]


def _decimal(number: int) -> bytes:
    return b"%d" % number


def _binary(number: int) -> bytes:
    return struct.pack(">q", number)


SYSTEMS = {
    "spring": Format(SPRING, "kafka_dlt-original-", "kafka_dlt-exception-message", _binary),
    "connect": Format(CONNECT, "__connect.errors.", "__connect.errors.exception.message", _decimal),
    "smallrye": Format(SMALLRYE, "dead-letter-", "dead-letter-reason", _decimal),
}


def letter_of(system: str, topic: str, offset: int, *, said: str = HOSTILE) -> Record:
    """Return a letter as a system writes it.

    Args:
        topic: the topic of origin, which the header names.
        said: the message.
    """
    how = SYSTEMS[system]
    changed = {
        f"{how.prefix}topic": topic.encode(),
        f"{how.prefix}offset": how.number(offset),
        how.said: said.encode(),
    }
    headers = tuple((name, changed.get(name, value)) for name, value in how.headers)
    # The user's own header stays.
    return record((*headers, ("theirs", HOSTILE.encode())), key=b"k%d" % offset, value=VALUE)


def topic_of(planted: Planted, system: str, letters: int, **said: str) -> str:
    """Make a dead letter topic of a system, with letters of the group's topic; return its name."""
    servers, name = planted.settings.kafka.bootstrap_servers, f"{planted.topic}-{system}"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.wait_for_topics([name])
    write(servers, name, [letter_of(system, planted.topic, n, **said) for n in range(letters)])
    return name


def showing(settings: Settings, *topics: str) -> Settings:
    """Return settings of a console that shows these topics."""
    console = settings.console.model_copy(update={"dead_letter_topics": topics})
    return settings.model_copy(update={"console": console})
