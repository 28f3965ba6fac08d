"""Kafka asked for where its partitions end, and its faults as one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from kafka.protocol.consumer import IsolationLevel

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.admin import connect_administrator
from feedback.settings.settings import KafkaSection
from spark_audit.stage.kafka_faults import heard

TIMEOUT_MS = 30_000
PAUSE_S = 0.2

T = TypeVar("T")


@contextmanager
def asking(settings: KafkaSection) -> Iterator[KafkaAdminClient]:
    """Yield an admin client, closed at the end.

    Raises:
        NotAvailable: Kafka is away, or a topic or the group may not be asked for.
    """
    with heard() as ear:
        try:
            admin = connect_administrator(settings, timeout_s=TIMEOUT_MS / 1000)
        except KafkaError as error:
            raise _away(settings, ear.fault or error) from error
        except (ValueError, OSError) as error:
            # An address that is none, a certificate that cannot be read.
            raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error
    try:
        yield admin
    except TopicAuthorizationFailedError as error:
        raise _no_right(settings, "Describe and Read on the topics") from error
    except GroupAuthorizationFailedError as error:
        raise _no_right(settings, "Describe on the group") from error
    except KafkaError as error:
        raise _away(settings, error) from error
    finally:
        admin.close()


def cluster_id(admin: KafkaAdminClient) -> str:
    """Return what Kafka calls itself; empty where it has no name."""
    return str(patiently(admin.describe_cluster).get("cluster_id") or "")


def offsets_of(
    admin: KafkaAdminClient,
    asked: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Return an offset of each partition.

    Args:
        asked: a time (epoch ms), for the first record that is not before it, or a word of Kafka
            for the log's begin or end.
    """
    if not asked:
        return {}
    answers = patiently(
        lambda: admin.list_partition_offsets(
            dict(asked), isolation_level=isolation, timeout_ms=TIMEOUT_MS
        )
    )
    return {one: answer.offset for one, answer in answers.items()}


def patiently(ask: Callable[[], T]) -> T:
    """Return the answer, asked for again while the brokers choose a leader or a coordinator."""
    deadline_s = monotonic_s() + TIMEOUT_MS / 1000
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or monotonic_s() >= deadline_s:
                raise
        time.sleep(PAUSE_S)


def _no_right(settings: KafkaSection, right: str) -> NotAvailable:
    return NotAvailable(f"Kafka at {settings.bootstrap_servers} refuses: this user needs {right}")


def _away(settings: KafkaSection, error: Exception) -> KafkaUnavailable:
    # Some of its errors begin with their own name.
    what = str(error) or type(error).__name__
    how = "is away"
    if isinstance(error, SaslAuthenticationFailedError):
        how = "refuses this user"
    elif settings.security_protocol.startswith("SASL"):
        how = "is away, or refuses this user"
    return KafkaUnavailable(f"Kafka at {settings.bootstrap_servers} {how}: {what}")
