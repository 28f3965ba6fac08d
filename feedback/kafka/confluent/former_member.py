"""The member of a group that librdkafka has forgotten, and the group's broker has not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from feedback.clock import monotonic_s
from feedback.kafka.administrator import Administrator
from feedback.kafka.errors import KafkaFault
from feedback.settings.settings import KafkaSection

_AGAIN_S = 0.2


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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-former-member")

    def note_joined(self) -> None:
        """Note which member it is now."""
        self._member_id = self._consumer.memberid() or ""

    def remove(self) -> None:
        """Begin to have the former member removed, if it is another one.

        Only while a broker coordinates the group, and no partition is this member's: as soon as
        the former one is removed, others may have its partitions.
        """
        if self._member_id and self._consumer.memberid() != self._member_id:
            former, self._member_id = self._member_id, ""
            self._thread.submit(self._remove, former)

    def close(self) -> None:
        """Begin no removal any more."""
        self._closing.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _remove(self, member_id: str) -> None:
        # After a session the broker has removed it by itself.
        until_s = monotonic_s() + self._settings.session_timeout_s
        while not self._closing.is_set() and monotonic_s() < until_s:
            try:
                with closing(self._connect()) as administrator:
                    administrator.remove_member(self._settings.group, member_id)
            except KafkaFault:
                # A broker that has just come back may still be reading its groups.
                self._closing.wait(_AGAIN_S)
            else:
                return
