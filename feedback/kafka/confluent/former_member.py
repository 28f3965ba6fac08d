"""The member of a group that librdkafka has forgotten, and the group's broker has not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from feedback.clock import monotonic_s
from feedback.kafka.administrator import Administrator
from feedback.kafka.errors import KafkaFault
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.kafka")

_AGAIN_S = 0.2
_AGAIN_AT_MOST_S = 2.0


class FormerMember:
    """Has the group remove the member that this one was before.

    After a session without an answer librdkafka forgets its member id, and joins as a new member
    (`rd_kafka_cgrp_session_timeout_check` of librdkafka 2.16). A broker that was away itself reads
    its groups from its log, and gives each of their members a whole session from then on. Nobody
    of the group has partitions until the former members' sessions are over, or they have left.

    Belongs to the thread that polls.

    Args:
        settings: the group, and the length of its sessions.
        consumer: librdkafka's.
        connect: makes an administrator, for a removal.
    """

    def __init__(
        self, settings: KafkaSection, consumer: Any, connect: Callable[[], Administrator]
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._connect = connect
        self._member_id = ""
        self._closing = threading.Event()
        self._removal: threading.Thread | None = None

    def note_joined(self) -> None:
        """Note which member it is now."""
        self._member_id = self._consumer.memberid() or ""

    def remove(self) -> None:
        """Begin to have the former member removed, if it is another one.

        Only while a broker coordinates the group, and no partition is this member's: as soon as
        the former one is removed, others may have its partitions. A member id is never given
        twice, and librdkafka has forgotten this one: nobody is that member any more.
        """
        if not self._member_id or self._is_removing() or not self._is_another():
            return
        former, self._member_id = self._member_id, ""
        # The end of the process waits for no answer of a broker.
        self._removal = threading.Thread(
            target=self._remove, args=(former,), name="onceward-former-member", daemon=True
        )
        self._removal.start()

    def close(self) -> None:
        """Begin no removal any more."""
        self._closing.set()

    def _is_removing(self) -> bool:
        return self._removal is not None and self._removal.is_alive()

    def _is_another(self) -> bool:
        return bool(self._consumer.memberid() != self._member_id)

    def _remove(self, member_id: str) -> None:
        # After a session the broker has removed it by itself.
        until_s = monotonic_s() + self._settings.session_timeout_s
        again_s = _AGAIN_S
        while not self._closing.is_set() and monotonic_s() < until_s:
            try:
                with closing(self._connect()) as administrator:
                    administrator.remove_member(self._settings.group, member_id)
            except KafkaFault as error:
                if error.fault is not None:
                    # Without this right it is no member either, as the polls report.
                    log.warning("member.not_removed", reason=str(error))
                    return
                # A broker that has just come back may still be reading its groups.
                self._closing.wait(again_s)
                again_s = min(2 * again_s, _AGAIN_AT_MOST_S)
            else:
                log.info("member.removed")
                return
