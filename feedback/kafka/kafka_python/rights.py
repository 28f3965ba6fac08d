"""Whether Kafka lets this user do something, asked without doing it.

A broker judges a right before it looks at a request. So a heartbeat of no member and the
end of a transaction that nobody began are refused for another reason where the right is there.
"""

from __future__ import annotations

from kafka.errors import (
    GroupAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.producer import EndTxnRequest

from feedback.kafka.kafka_python.wire import GROUP, TRANSACTION, KafkaWire
from feedback.settings.settings import KafkaSection

_GROUP_REFUSED = GroupAuthorizationFailedError.errno
_NAME_REFUSED = TransactionalIdAuthorizationFailedError.errno
# A producer that Kafka never made: numbers are given from 0.
_NOBODY = 2**62


class KafkaPythonRights:
    """See `feedback.kafka.probes.RightsProbe`.

    Args:
        settings: brokers and security.
        timeout_s: how long Kafka may take for an answer.
    """

    def __init__(self, settings: KafkaSection, timeout_s: float) -> None:
        self._wire = KafkaWire(settings, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def may_describe_group(self, group: str) -> bool:
        """Say whether this user may ask about a group.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        return bool(self._wire.find_coordinator(group, GROUP).error_code != _GROUP_REFUSED)

    def may_join_group(self, group: str) -> bool:
        """Say whether this user may be a member of a group; True where Kafka cannot say now.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        found = self._wire.find_coordinator(group, GROUP)
        if found.error_code:
            return bool(found.error_code != _GROUP_REFUSED)
        heartbeat = HeartbeatRequest(group_id=group, generation_id=-1, member_id="", max_version=3)
        answer = self._wire.ask(found.node_id, heartbeat)
        return bool(answer.error_code != _GROUP_REFUSED)

    def may_write_as(self, transactional_id: str) -> bool:
        """Say whether this user may write under a transactional id; True where Kafka cannot say.

        Args:
            transactional_id: one that nobody has.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        found = self._wire.find_coordinator(transactional_id, TRANSACTION)
        if found.error_code:
            return bool(found.error_code != _NAME_REFUSED)
        end = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=_NOBODY,
            producer_epoch=0,
            committed=False,
            max_version=3,
        )
        answer = self._wire.ask(found.node_id, end)
        return bool(answer.error_code != _NAME_REFUSED)
