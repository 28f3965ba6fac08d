"""The relay: sends the rows of the outbox, in order per key, however often it is killed.

Theory of operation. A turn takes free lanes that have rows (`outbox_table`), writes PENDING and
hands the rows to Kafka (`relay_batch`). It settles the rows that Kafka has acknowledged: they are
marked, and the lanes are released. Two batches are under way at a time, so that the database works
while Kafka does. There are more when Kafka is slow over one topic, so that others do not wait for
it. All its state lies in the database: a relay that is killed leaves rows that wait and lanes whose
lease ends.

No outage ends it: it waits, logs that once, and goes on. While Redis is away nothing is sent: a
request that Redis does not know has no resender, and would be lost with the worker that takes it.
While Kafka is away the same rows are tried again, and nothing is parked.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable, RedisUnavailable
from feedback.kafka.senders import open_ordered_sender
from feedback.kafka.sending import OrderedSender
from feedback.logs import EventLog
from feedback.outages import log_outage
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from producer_client.outbox.change_listener import Waker, waker
from producer_client.outbox.cooldown import Cooldowns
from producer_client.outbox.errors import OutboxUnavailable, OutboxVersionError
from producer_client.outbox.metrics import NO_METRICS, RelayMetrics
from producer_client.outbox.outbox_table import OutboxTable, RowBatch
from producer_client.outbox.relay_batch import RelayBatch, RelayResults, RelaySender
from producer_client.outbox.row_pending import PendingWriter

log = EventLog("onceward.relay")

FLYING = 2
FLYING_WHEN_SLOW = 8
SLOW_S = 0.5
WAIT_S = 0.05
AWAY_PAUSE_S = (0.25, 2.0)
STANDING_S = 5.0
PRUNE_S = 2.0
STOP_S = 2.0
# The part of it for records that Kafka has not acknowledged.
GIVE_UP_S = 0.5
CLOSE_S = 0.3
SIGNAL_S = 0.2
PARK_AT_ONCE = 1000


class Relay:
    """One relay, from its start to its end.

    Args:
        metrics: counts its rows.

    Raises:
        SettingsError: `[outbox] url` is empty or malformed.
    """

    def __init__(self, settings: Settings, *, metrics: RelayMetrics = NO_METRICS) -> None:
        outbox = settings.outbox
        self._settings = settings
        self._metrics = metrics
        self._table = OutboxTable(
            outbox.url,
            group=settings.kafka.group,
            lease_s=outbox.lease_s,
            timeout_s=outbox.timeout_s,
        )
        self._store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        # The second is for forbidden topics: a refusal ends all records that a producer has.
        self._senders = tuple(
            open_ordered_sender(settings.kafka, send_timeout_s=outbox.send_timeout_s)
            for _ in range(2)
        )
        self._relay_sender = RelaySender(
            group=settings.kafka.group,
            pending=PendingWriter(self._store, resend_after_s=settings.client.resend_after_s),
            sender=self._senders[0],
            apart=self._senders[1],
            patience_s=outbox.send_timeout_s,
            tick=self._tick,
        )
        self._cooldowns = Cooldowns(unknown_s=outbox.unknown_topic_s)
        self._flying: list[RelayBatch] = []
        self._away: NotAvailable | None = None
        self._topic_refusals: dict[str, str] = {}
        self._renew_s = self._standing_s = self._prune_s = 0.0
        self._unserved: frozenset[str] = frozenset()
        self._waker: Waker | None = None
        self._stopping = threading.Event()
        self._is_asked = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="onceward-relay", daemon=True)
        self.turned_s = monotonic_s()

    # its life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Check the tables and begin to work, even when Kafka and Redis are not there yet."""
        self._table.prepare()
        self._table.close()  # the connection belongs to the thread
        outbox = self._settings.outbox
        self._waker = waker(outbox.url, timeout_s=outbox.timeout_s, notify=outbox.notify)
        self._thread.start()
        log.info("relay.started", group=self._settings.kafka.group, outbox=self._table.dialect)

    @property
    def missing(self) -> str | None:
        """The server that is away, in one line; None when the relay gets on."""
        return str(self._away) if self._away else (", ".join(self._cooldowns.away) or None)

    @property
    def refused(self) -> tuple[str, ...]:
        """The faults of security that last, in sentences with their correction."""
        away, topics = self._away, self._cooldowns.away
        server = () if away is None or away.fault is None else (str(away),)
        refusals = dict(self._topic_refusals)  # its thread adds to it
        return (*server, *(refusals[one] for one in topics if one in refusals))

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is asked to stop or has failed, at most that long; say whether it was."""
        until_s = monotonic_s() + timeout_s
        while not self._is_asked and (left_s := until_s - monotonic_s()) > 0:
            if self._stopping.wait(min(left_s, SIGNAL_S)):
                break
        return self._has_to_end

    def stop(self) -> None:
        """Ask it to stop; `close` ends it. A signal handler may call this: it takes no lock."""
        self._is_asked = True

    def close(self) -> None:
        """Settle the batches under way, within about two seconds, and close all connections.

        Raises:
            BaseException: the fault that ended it, if one did.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S + CLOSE_S)
        for sender in self._senders:
            sender.close(CLOSE_S)
        if self._waker is not None:
            self._waker.close()
        # A thread that hangs in a connection ends with the process; closing it would wait as well.
        if not self._thread.is_alive():
            self._store.close()
        log.info("relay.stopped")
        if self._fault is not None:
            raise self._fault

    # its work -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            for pause_s in self._turns():
                self.turned_s = monotonic_s()
                if self._has_to_end:
                    self._land_last()
                    return
                self._pause(pause_s)
        except Exception as error:  # nobody looks at this thread: the error ends the service
            self._fault = error
            self._stopping.set()
        finally:
            self._table.close()

    @property
    def _has_to_end(self) -> bool:
        return self._is_asked or self._stopping.is_set()

    def _pause(self, pause_s: float) -> None:
        """Wait so long, or until rows were committed, or until it has to end."""
        assert self._waker is not None
        until_s = monotonic_s() + pause_s
        while not self._is_asked and (left_s := until_s - monotonic_s()) > 0:
            if self._waker.wait(min(left_s, SIGNAL_S)):
                break

    def _turns(self) -> Iterator[float]:
        """Yield how long to rest after each turn."""
        shortest_s, longest_s = AWAY_PAUSE_S
        pause_s = 0.0
        while True:
            try:
                worked = self._turn()
                if self._away is not None:
                    log.info("relay.goes_on")
                self._away, pause_s = None, 0.0
                yield 0.0 if worked else self._idle_s()
            except OutboxVersionError:
                raise
            except NotAvailable as error:
                if self._away is None:
                    server = "redis" if isinstance(error, RedisUnavailable) else "database"
                    log_outage(log, f"{server}.away", error)
                self._away = error
                pause_s = min(longest_s, max(shortest_s, pause_s * 2))
                until_s = monotonic_s() + pause_s
                while (left_s := until_s - monotonic_s()) > 0:
                    yield left_s

    def _turn(self) -> bool:
        """Do one round of work; say whether there may be more at once."""
        self._renew()
        self._look_after()
        worked = self._land_settled()
        worked = self._park_lost() or worked
        worked = self._try_forbidden() or worked
        room = FLYING_WHEN_SLOW if self._is_slow() else FLYING
        if len(self._flying) < room and self._launch():
            return True
        if self._flying:
            self._flying[0].is_settled(WAIT_S)
            return True
        return worked

    def _launch(self) -> bool:
        now_s = monotonic_s()
        resting = {*self._cooldowns.resting(now_s), *self._slow_topics(now_s)}
        outbox = self._settings.outbox
        batch = self._table.take(
            limit=outbox.batch_limit, limit_bytes=outbox.batch_bytes, resting=resting
        )
        if batch is None:
            if not self._flying:
                # Other relays have sent the rows that had failed here.
                self._cooldowns.forget(self._cooldowns.due(now_s))
            return False
        self._ship(batch)
        return True

    def _try_forbidden(self) -> bool:
        """Send a few rows of a forbidden topic; say whether there were any."""
        due = self._cooldowns.forbidden(monotonic_s())
        if not due or any(one.sender is self._senders[1] for one in self._flying):
            return False
        batch = self._table.take(limit=1, limit_bytes=1, only=due[0])
        if batch is None:
            if not self._table.waits_for(due[0]):
                self._cooldowns.forget(due[:1])
            return False
        self._ship(batch, is_apart=True)
        return True

    def _ship(self, batch: RowBatch, *, is_apart: bool = False) -> None:
        try:
            self._flying.append(self._relay_sender.launch(batch, is_apart=is_apart))
        except RedisUnavailable:
            self._table.settle(batch, sent={}, parked={})
            raise

    def _park_lost(self) -> bool:
        """Park some rows of the topics that Kafka does not know; say whether there were any."""
        parked = 0
        for topic in self._cooldowns.lost():
            reason = f"UNKNOWN_TOPIC: Kafka knows no topic {topic}"
            count = self._table.park(topic, reason=reason, most=PARK_AT_ONCE)
            if count:
                log.warning("topic.parked", topic=topic, count=count, reason=reason)
                self._metrics.parked(topic, "UNKNOWN_TOPIC", count)
            if not self._table.waits_for(topic):
                self._cooldowns.forget([topic])
            parked += count
        return parked > 0

    def _land_settled(self) -> bool:
        landed = False
        for one in list(self._flying):
            is_settled = one.is_settled(0.0)
            if is_settled or self._relay_sender.is_overdue(one):
                self._land(one)
                landed = True
                if not is_settled:
                    # Its producer is gone, and with it the records of all other batches there.
                    self._land_all(one.sender)
                    break
        return landed

    def _land_all(self, sender: OrderedSender) -> None:
        for one in list(self._flying):
            if one.sender is sender:
                self._land(one)

    def _land(self, shipment: RelayBatch) -> None:
        try:
            # It stays among the renewed batches until it has landed: sent one by one it may outlast
            # a lease.
            landed = self._relay_sender.land(shipment)
        finally:
            self._flying.remove(shipment)
        self._note(shipment, landed)
        settled = self._table.settle(shipment.batch, sent=landed.sent, parked=landed.parked)
        for row in settled:
            topic = row.request.payload.topic
            if row.id in landed.parked:
                reason = landed.parked[row.id]
                log.warning("request.parked", request_id=row.request.request_id, reason=reason)
                self._metrics.parked(topic, reason.partition(":")[0])
        self._metrics.sent(sum(row.id in landed.sent for row in settled))

    def _note(self, shipment: RelayBatch, landed: RelayResults) -> None:
        sent = {one.request.payload.topic for one in shipment.batch.rows if one.id in landed.sent}
        new, back = self._cooldowns.note(
            sent=sent,
            away=landed.away,
            unknown=landed.unknown,
            forbidden=landed.forbidden,
            now_s=monotonic_s(),
        )
        for topic, error in landed.away.items():
            if error.fault is not None:
                self._topic_refusals[topic] = str(error)
        for topic in new:
            log_outage(log, "topic.away", landed.away[topic], topic=topic)
        for topic in back:
            self._topic_refusals.pop(topic, None)
            log.info("topic.back", topic=topic)

    def _land_last(self) -> None:
        """Settle the rows that Kafka acknowledges in time, and give up the rest: they wait on."""
        until_s = monotonic_s() + STOP_S - GIVE_UP_S
        with suppress(NotAvailable):  # the leases end by themselves
            while self._flying and monotonic_s() < until_s:
                if not self._land_settled():
                    self._flying[0].is_settled(WAIT_S)
            for one in self._flying:
                # First: to end a producer may take longer than there is time.
                acknowledged = one.acknowledged()
                if acknowledged:
                    self._table.settle(one.batch, sent=acknowledged, parked={}, holds=True)
            for sender in self._senders:
                self._land_all(sender)

    def _tick(self) -> bool:
        self._renew()
        return not self._has_to_end

    def _renew(self) -> None:
        if monotonic_s() < self._renew_s:
            return
        for one in self._flying:
            self._table.renew(one.batch)
        self._renew_s = monotonic_s() + self._settings.outbox.lease_s / 3

    def _is_slow(self) -> bool:
        return bool(self._flying) and monotonic_s() > self._flying[0].launched_s + SLOW_S

    def _slow_topics(self, now_s: float) -> set[str]:
        slow: set[str] = set()
        for one in self._flying:
            if now_s > one.launched_s + SLOW_S:
                slow |= one.open_topics()
        return slow

    def _idle_s(self) -> float:
        due_s = self._cooldowns.due_in_s(monotonic_s())
        poll_s = self._settings.outbox.poll_s
        return poll_s if due_s is None else min(poll_s, max(0.01, due_s))

    def _look_after(self) -> None:
        """Count and prune, now and then; a slow statement there delays no sending."""
        now_s = monotonic_s()
        if now_s >= self._prune_s:
            self._prune_s = now_s + PRUNE_S
            with _given_up("prune"):
                if self._table.prune(keep_s=self._settings.outbox.keep_s):
                    self._prune_s = now_s
        if now_s >= self._standing_s:
            self._standing_s = now_s + STANDING_S
            with _given_up("count"):
                self._metrics.standing(self._table.standing())
                self._warn_of(self._table.unserved_groups())

    def _warn_of(self, unserved: Collection[str]) -> None:
        """Warn once of each group that no relay serves: its rows would wait unseen."""
        for group in unserved:
            if group not in self._unserved:
                log.warning("group.has_no_relay", group=group, served=self._settings.kafka.group)
        self._unserved = frozenset(unserved)


@contextmanager
def _given_up(what: str) -> Iterator[None]:
    """Go on without this step if the database is too slow; a turn finds out if it is away."""
    try:
        yield
    except OutboxUnavailable as error:
        log.warning("relay.given_up", what=what, reason=str(error))
