"""FastStream on Kafka, with replies on a topic of the client.

Of its two libraries its documentation prefers none. aiokafka was the faster one here (285 requests
a second of a burst, and 198 with confluent-kafka, on a busy machine): the next message waits until
the reply to this one is acknowledged, and librdkafka lets a record linger for 5 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.bench import plan
from tests.bench.systems.onceward import fresh_topic
from tests.bench.systems.peer import Peer
from tests.stack import Servers


@contextmanager
def fresh_topics(servers: Servers) -> Iterator[Mapping[str, str]]:
    """Yield the names of the broker, and of new topics for requests and for replies."""
    with fresh_topic(servers.kafka) as requests, fresh_topic(servers.kafka) as replies:
        yield {
            "BENCH_KAFKA": servers.kafka,
            plan.TOPIC_VARIABLE: requests,
            "BENCH_REPLIES": replies,
        }


FASTSTREAM = Peer(
    product="faststream",
    worker=(
        "-m",
        "faststream",
        "run",
        "tests.bench.systems.faststream_app:app",
        f"--workers={plan.PROCESSES}",
        "--log-level=warning",
    ),
    client="tests.bench.systems.faststream_client",
    server="broker",
    opened=fresh_topics,
    settings=(
        f"aiokafka, {plan.PROCESSES} workers of one group, {plan.PARTITIONS} partitions, default "
        "settings (one message at a time, the next after its reply is acknowledged) but for the "
        "log of each message, which is off; publish, and a reply on a topic of Kafka (reply_to)"
    ),
    promise=(
        "seen final by its reply on a topic of Kafka; offsets are committed each 5 s whatever "
        "runs: lost or run again with a worker that is killed, and no journal"
    ),
)
