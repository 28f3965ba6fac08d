"""The resender: finds requests that are lost, overdue or silent, and sends them again.

Theory of operation. A loop takes due requests from the set of open requests
(`feedback.redis.deadlines`). It takes them under a lease, so that any number of resenders share the
work and no two of them send the same request. It reads the statuses, lets `resending.decide`
decide, and hands the resends to `topic_lanes`, a topic's batches one after the other. All its state
lies in Redis: a resender that is killed loses nothing, since its requests are due again when their
lease ends. Between two takes `lost_scan` looks for requests whose worker died. No outage ends it:
it waits, logs that once, and goes on.

The effects of a clock that is off: Redis' clock alone decides what is due. A client or worker whose
clock is five minutes behind makes the first check due at once, which costs one duplicate that the
journal answers. One that is ahead delays it by at most eight times `resend_after_s`; LOST is found
in any case, since that does not depend on time. Redis' own clock off by five minutes does the same
to all requests' first checks. A deadline only decides who answers a resend: a worker, by the
database's clock.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence

from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable
from feedback.kafka.reader import RecordReader
from feedback.kafka.senders import open_sender
from feedback.logs import EventLog
from feedback.outages import OutageLog
from feedback.redis.deadlines import Deadlines, TakenRequests
from feedback.redis.server import connect
from feedback.redis.split_batch import read_apart
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import Status
from producer_client.resender.lost_scan import LostScan
from producer_client.resender.payloads import PayloadFinder
from producer_client.resender.record_search import RecordSearch
from producer_client.resender.resend_plan import resend_plan_of
from producer_client.resender.resends import ResendBatch, Resends, ResentRequest, WantedResend
from producer_client.resender.topic_lanes import TopicLanes
from producer_client.sending.blocking_sends import BlockingSends
from producer_client.sending.resending import MAX_BACKOFF_FACTOR

log = EventLog("onceward.resender")

TAKE = 500
POLL_S = 0.25
SIGNAL_S = 0.2
AWAY_PAUSE_S = (0.25, 2.0)
# A lease is the longest time of a send, and this time for the steps before it.
LEASE_BEFORE_SEND_S = 5.0
# Nothing is begun in the last moment of a lease.
LEASE_MARGIN_S = 1.0
PUT_OFF_S = 1.0
STOP_S = 1.2
CLOSE_S = 0.3
ONCE_LIMIT_S = 600.0


class Resender:
    """One resender, from its start to its end.

    Args:
        settings: checked settings.
        on_resent: called for each request that was sent again, in the thread that sent it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_resent: Callable[[ResentRequest], None] = lambda resent: None,
    ) -> None:
        client = settings.client
        self._settings = settings
        self._store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        self._deadlines = Deadlines(self._store)
        self._reader = RecordReader(settings.kafka)
        self._sender = open_sender(
            settings.kafka,
            send_timeout_s=client.send_timeout_s,
            max_request_bytes=client.max_request_bytes,
        )
        resends = Resends(
            store=self._store,
            deadlines=self._deadlines,
            payloads=PayloadFinder(self._store, self._reader),
            sending=BlockingSends(client, self._store, self._sender),
            resend_after_s=client.resend_after_s,
            put_off_s=PUT_OFF_S,
            on_resent=on_resent,
            on_left=self._come_back,
        )
        self._outage = OutageLog(log, "redis.away", "redis.back")
        self._lanes = TopicLanes(resends.send, on_fault=self.fail)
        self._search = RecordSearch(
            settings.kafka,
            store=self._store,
            deadlines=self._deadlines,
            send_timeout_s=client.send_timeout_s,
            on_found=lambda: self._come_back(monotonic_s() + 2 * PUT_OFF_S),
            on_fault=self.fail,
        )
        self._lease_s = client.send_timeout_s + LEASE_BEFORE_SEND_S
        self._longest_look_s = client.resend_after_s * MAX_BACKOFF_FACTOR
        self._scan = LostScan(
            self._deadlines,
            longest_look_s=self._longest_look_s + self._lease_s,
            far_look_s=client.resend_after_s,
        )
        self._stopping = threading.Event()
        self._is_asked = False
        # Requests that could not be tried are due again by then.
        self._comes_back_s = 0.0
        self._coming_back = threading.Lock()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="onceward-resender", daemon=True)
        self.turned_s = monotonic_s()

    # its life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work, also when the servers are not there yet."""
        self._lanes.start()
        self._search.start()
        self._thread.start()
        log.info("resender.started", group=self._settings.kafka.group)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is asked to stop, at most that long; say whether it was."""
        until_s = monotonic_s() + timeout_s
        while not self._is_asked and (left_s := until_s - monotonic_s()) > 0:
            if self._stopping.wait(min(left_s, SIGNAL_S)):
                break
        return self._is_asked or self._stopping.is_set()

    def stop(self) -> None:
        """Ask it to stop; `close` ends it.

        A signal handler may call this: it takes no lock, since the interrupted thread may have it.
        """
        self._is_asked = True

    def fail(self, fault: BaseException) -> None:
        """Let a fault end it; the first fault is the reason."""
        self._fault = self._fault or fault
        self._stopping.set()

    def close(self) -> None:
        """Finish the batches being sent, within about two seconds, and close all connections.

        Raises:
            BaseException: the fault that ended it, if one did.
        """
        self._stopping.set()
        until_s = monotonic_s() + STOP_S
        is_idle = self._lanes.stop(STOP_S)
        is_idle &= self._search.stop(max(0.0, until_s - monotonic_s()))
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until_s - monotonic_s()))
        self._sender.close(CLOSE_S)
        # A thread that hangs in a connection ends with the process; closing it would wait as well.
        if is_idle and not self._thread.is_alive():
            self._reader.close()
            self._store.close()
        log.info("resender.stopped")
        if self._fault is not None:
            raise self._fault

    def once(self) -> bool:
        """Do one pass over all lost and due requests; say whether all of them were tried.

        Raises:
            RedisUnavailable: Redis is away; the requests that were taken are due again by
                themselves.
        """
        self._lanes.start()
        self._search.start(tries_once=True)
        self._scan.whole_round()
        until_s = monotonic_s() + ONCE_LIMIT_S
        while self._take_and_decide() or not self._is_all_tried():
            if self.wait(0) or monotonic_s() > until_s:
                return False
            if self._is_idle(POLL_S) and not self._is_all_tried():
                self.wait(POLL_S)
        lanes = self._lanes
        has_missed = lanes.has_missed_topic or lanes.has_missed_redis or self._search.has_missed
        return not has_missed

    def _is_idle(self, timeout_s: float) -> bool:
        return self._search.wait_idle(timeout_s) and self._lanes.wait_idle(timeout_s)

    def _is_all_tried(self) -> bool:
        return self._is_idle(0) and monotonic_s() > self._comes_back_s

    def _come_back(self, at_s: float) -> None:
        """Note that requests which could not be tried are due again at a monotonic time."""
        with self._coming_back:
            self._comes_back_s = max(self._comes_back_s, at_s)

    # its work -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            for pause_s in self._turns():
                self._stopping.wait(pause_s)
                if self._stopping.is_set():
                    return
                self.turned_s = monotonic_s()
        except Exception as error:  # nobody looks at this thread: the error ends the service
            self.fail(error)

    def _turns(self) -> Iterator[float]:
        """Yield how long to rest after each turn."""
        shortest_s, longest_s = AWAY_PAUSE_S
        away_s = 0.0
        while True:
            try:
                self._scan.turn()
                was_full = self._take_and_decide()
                self._outage.ends()
                away_s = 0.0
                yield 0.0 if was_full else min(POLL_S, self._scan.due_in_s())
            except RedisUnavailable as error:
                self._outage.begins(error)
                away_s = min(longest_s, max(shortest_s, away_s * 2))
                self._scan.rest(self._settings.redis.heartbeat_ttl_s)
                yield away_s

    def _take_and_decide(self) -> bool:
        """Take due requests and act on them; say whether there may be more at once."""
        now_s = monotonic_s()
        sure_until_s = now_s + LEASE_BEFORE_SEND_S - LEASE_MARGIN_S
        taken = self._deadlines.take(TAKE, lease_s=self._lease_s)
        if taken.strays:
            log.warning("deadlines.strays_removed", count=taken.strays)
        if not taken.request_ids:
            return False
        statuses = list(self._readable(taken))
        plan = resend_plan_of(statuses, taken, resend_after_s=self._settings.client.resend_after_s)
        self._deadlines.settle(taken, plan.looks_s)
        self._deadlines.remove(taken, plan.ended)
        for topic, statuses in plan.searches.items():
            self._search.add(topic, statuses)
        is_taken_in = True
        for topic, wanted in plan.resends.items():
            # By Redis' clock the lease begins a little later.
            due_again_s = now_s + self._lease_s + PUT_OFF_S
            batch = ResendBatch(taken, wanted, sure_until_s, due_again_s)
            if not self._lanes.offer(topic, batch, wait_s=POLL_S):
                self._put_off(taken, topic, wanted)
                is_taken_in = False
        return is_taken_in and len(taken.request_ids) == TAKE

    def _readable(self, taken: TakenRequests) -> Iterator[Status]:
        """Yield the valid statuses; other values are left alone."""
        unreadable: list[str] = []
        yield from read_apart(self._store, taken.request_ids, unreadable)
        if unreadable:
            log.warning("statuses.unreadable", count=len(unreadable), request_id=unreadable[0])
            looks_s = dict.fromkeys(unreadable, self._longest_look_s)
            self._deadlines.settle(taken, looks_s, fixed=True)

    def _put_off(self, taken: TakenRequests, topic: str, wanted: Sequence[WantedResend]) -> None:
        shortest_s = max(PUT_OFF_S, rests_s := self._lanes.rests_s(topic))
        if not rests_s:
            self._come_back(monotonic_s() + 2 * PUT_OFF_S)
        looks_s = {
            one.status.request_id: shortest_s + random.uniform(0, PUT_OFF_S) for one in wanted
        }
        self._deadlines.settle(taken, looks_s, fixed=True)
