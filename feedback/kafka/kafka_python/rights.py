"""Whether Kafka lets this user do something, asked without doing it.

A broker judges a right before it looks at a request. So a heartbeat of no member, the end of a
transaction that nobody began, and the rehearsal of a topic's making are refused for another reason
where the right is there.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.producer import EndTxnRequest

from feedback.kafka.kafka_python.admin import administrator, kafka_faults
from feedback.kafka.kafka_python.wire import GROUP, TRANSACTION, KafkaWire
from feedback.settings.settings import KafkaSection

_GROUP_REFUSED = GroupAuthorizationFailedError.errno
_NAME_REFUSED = TransactionalIdAuthorizationFailedError.errno
_MAKING_REFUSED = (TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno)
# A producer that Kafka never made: numbers are given from 0.
_NOBODY = 2**62


def may_describe_group(wire: KafkaWire, group: str) -> bool:
    """Say whether this user may ask about a group.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    return bool(wire.find_coordinator(group, GROUP).error_code != _GROUP_REFUSED)


def may_join_group(wire: KafkaWire, group: str) -> bool:
    """Say whether this user may be a member of a group; True where Kafka cannot say now.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    found = wire.find_coordinator(group, GROUP)
    if found.error_code:
        return bool(found.error_code != _GROUP_REFUSED)
    heartbeat = HeartbeatRequest(group_id=group, generation_id=-1, member_id="", max_version=3)
    answer = wire.ask(found.node_id, heartbeat)
    return bool(answer.error_code != _GROUP_REFUSED)


def may_write_as(wire: KafkaWire, transactional_id: str) -> bool:
    """Say whether this user may write under a transactional id; True where Kafka cannot say now.

    Args:
        transactional_id: one that nobody has.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    found = wire.find_coordinator(transactional_id, TRANSACTION)
    if found.error_code:
        return bool(found.error_code != _NAME_REFUSED)
    end = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=_NOBODY,
        producer_epoch=0,
        committed=False,
        max_version=3,
    )
    answer = wire.ask(found.node_id, end)
    return bool(answer.error_code != _NAME_REFUSED)


def not_to_be_made(
    settings: KafkaSection, topics: Collection[str], *, timeout_s: float
) -> frozenset[str]:
    """Return those topics that this user may not make, whether they exist or not.

    Args:
        timeout_s: how long Kafka may take for an answer.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    if not topics:
        return frozenset()
    with kafka_faults(settings), administrator(settings, timeout_s=timeout_s) as admin:
        answer = admin.create_topics(
            {name: {} for name in topics}, validate_only=True, raise_errors=False
        )
    return frozenset(
        one["name"] for one in answer["topics"] if one["error_code"] in _MAKING_REFUSED
    )
