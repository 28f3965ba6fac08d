"""What librdkafka says of its group and its brokers, in callbacks of the polling thread."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault, SecurityKind
from feedback.kafka.confluent.faults import fault_from, fault_of, words_of
from feedback.kafka.confluent.silent_partitions import Unread
from feedback.kafka.errors import KafkaFault
from feedback.kafka.listener import fault_of_certificate, fault_of_listener
from feedback.kafka.values import BrokersAway, Partition
from feedback.settings.settings import KafkaSection

# How often librdkafka describes itself.
STATISTICS_MS = 500
# In librdkafka's words of a connection that failed.
_BROKER = re.compile(r"://(?P<host>[^/\s]+):(?P<port>\d+)/")


# States of a partition that nobody has asked librdkafka to read.
_IDLE = ("none", "stopped")

# How long a client is asked in vain at first, before its errors are looked at.
_LOOK_S = 0.5


class _LostConnection(NamedTuple):
    at_s: float
    words: str
    fault: SecurityFault | None


class ClientStanding:
    """Hears errors and statistics of one client. Belongs to one thread.

    Attributes:
        is_up: a broker coordinates the group.
        is_steady: the group's members have their partitions, and this member is one of them.
    """

    def __init__(self, settings: KafkaSection) -> None:
        self._settings = settings
        self._failure: _LostConnection | None = None
        self._asked = False
        self._of_certificate: SecurityFault | None = None
        self.is_up = False
        self.is_steady = False
        self._idle_since: dict[Partition, float] = {}
        self._offsets: dict[Partition, Unread] | None = None

    def properties(self) -> dict[str, Any]:
        """Return the properties by which a client calls back."""
        return {
            "error_cb": self.hear_error,
            "stats_cb": self._hear_statistics,
            "statistics.interval.ms": STATISTICS_MS,
        }

    def hear_error(self, error: Any) -> None:
        """Hear of a failed connection."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_up = False
            # Nothing else is said of a listener that ends a connection without a word.
            if self._failure is None:
                self._failure = _LostConnection(monotonic_s(), words_of(error), None)
            return
        found = fault_of(error, self._settings)
        if found is not None and found.kind is SecurityKind.UNTRUSTED:
            found = self._why_untrusted(words_of(error)) or found
        # One that says why is kept for longer than one that says nothing.
        if found is None and self._failure is not None and self._failure.fault is not None:
            return
        self._failure = _LostConnection(monotonic_s(), words_of(error), found)

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made since a monotonic time."""
        failure = self._failure
        if failure is None or failure.at_s < since_s:
            return BrokersAway()
        if failure.fault is None:
            # A listener of another kind ends our connections without a word of why.
            failure = failure._replace(fault=self._ask_listener())
        said = failure.words if failure.fault is None else failure.fault.said
        return BrokersAway(said, failure.fault)

    def heard(self, *, since_s: float) -> BrokersAway:
        """Return why a connection failed since a monotonic time, as it was heard; ask nobody."""
        failure = self._failure
        if failure is None or failure.at_s < since_s:
            return BrokersAway()
        return BrokersAway(failure.words, failure.fault)

    def forget(self) -> None:
        """Forget failures: a broker has answered."""
        self._failure, self._asked, self._of_certificate = None, False, None

    def _why_untrusted(self, words: str) -> SecurityFault | None:
        """Return why a certificate is refused, asked once: librdkafka says the same of each."""
        if self._of_certificate is None and (broker := _BROKER.search(words)) is not None:
            host, port = broker["host"].strip("[]"), int(broker["port"])
            self._of_certificate = fault_of_certificate(host, port, self._settings)
        return self._of_certificate

    def _ask_listener(self) -> SecurityFault | None:
        if self._asked:
            return None
        self._asked = True
        host, _, port = self._settings.bootstrap_servers.split(",")[0].strip().rpartition(":")
        if not port.isdigit():
            return None
        protocol = self._settings.security_protocol
        return fault_of_listener(host, int(port), security_protocol=protocol)

    def idle_before(self, at_s: float) -> set[Partition]:
        """Return the partitions of which nothing is being read since before a monotonic time."""
        return {one for one, since_s in self._idle_since.items() if since_s < at_s}

    def forget_idle(self) -> None:
        """Count anew: partitions have come."""
        self._idle_since.clear()

    def take_offsets(self) -> dict[Partition, Unread] | None:
        """Return from where partitions are fetched, and their ends; once for new statistics."""
        offsets, self._offsets = self._offsets, None
        return offsets

    def _hear_statistics(self, said: str) -> None:
        statistics, now_s = json.loads(said), monotonic_s()
        partitions = {
            (topic, int(number)): one
            for topic, found in statistics.get("topics", {}).items()
            for number, one in found["partitions"].items()
        }
        self._idle_since = {
            place: self._idle_since.get(place, now_s)
            for place, one in partitions.items()
            if one["fetch_state"] in _IDLE
        }
        self._offsets = {
            place: Unread(one["next_offset"], one["ls_offset"]) for place, one in partitions.items()
        }
        group = statistics.get("cgrp", {})
        self.is_up = group.get("state") == "up"
        self.is_steady = self.is_up and group.get("join_state") == "steady"


def await_broker(
    client: Any, standing: ClientStanding, settings: KafkaSection, limit_s: float
) -> None:
    """Return when a broker has answered to a new client.

    Args:
        standing: hears the client's errors.

    Raises:
        KafkaFault: none did; with the fault of security, as soon as that is known.
    """
    began_s = monotonic_s()
    look_s = _LOOK_S
    while True:
        left_s = began_s + limit_s - monotonic_s()
        try:
            client.list_topics(timeout=max(0.001, min(look_s, left_s)))
        except KafkaException as error:
            client.poll(0)  # errors are told to us within
            why = standing.why_away(since_s=began_s)
            if why.fault is None and monotonic_s() < began_s + limit_s:
                # Far away, or with many topics, it may take longer than this each time.
                look_s *= 2
                continue
            reason = why.reason or fault_from(error.args[0], settings).words
            found = KafkaFault(f"Kafka at {settings.bootstrap_servers}: {reason}")
            found.words = reason
            raise found.because(why.fault) from error
        else:
            standing.forget()
            return
