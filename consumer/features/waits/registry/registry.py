"""The registry: reads wait records, and moves expired ones; through any outage.

Nothing is moved before its partition was read to the end as of then: after a start, an outage or a
new assignment as well. So a request that was finished meanwhile is not reported. Nor while Redis is
away, where the holders' heartbeats are. The workers know nothing of this process, nor of its
database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack

from consumer.features.waits.live_workers import LiveWorkers
from consumer.features.waits.registry.expiry import ExpiryMover
from consumer.features.waits.registry.partition_leases import LeaseLost
from consumer.features.waits.registry.partitions_owned import PartitionsOwned, Stopping
from consumer.features.waits.registry.registry_counts import RegistryCounts
from consumer.features.waits.registry.wait_rows import OwnedPartition
from consumer.features.waits.registry.wait_table import WaitTable
from consumer.features.waits.registry.wait_topics import WaitTopic, WaitTopics, group_of
from consumer.journal.errors import JournalUnavailable
from consumer.status.availability import ServerOutage
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, NotAvailable, RedisUnavailable
from feedback.kafka.engines import engine_of
from feedback.kafka.fencing import Fenced
from feedback.kafka.scan import KafkaScan
from feedback.kafka.source import KafkaSource
from feedback.kafka.topics import KafkaTopics, TopicMissing
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings

log = EventLog("onceward.waits")

POLL_S = 0.25
# How often it looks for due requests.
LOOK_S = 1.0
TOPICS_S = 15.0
# How many are moved at once.
AT_ONCE = 500
AWAY_S = 1.0
# After a dead letter topic was not there.
REST_S = 30.0
_ME = "registry"


class Registry:
    """One registry, for its thread.

    Args:
        name: of this process, as no other has.
        topics: whose requests are meant; all of the group by default.
        on_read: called whenever it has read, which is every few seconds while it gets on.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        name: str,
        topics: Collection[str],
        stopping: threading.Event,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._stopping = stopping
        self._on_read = on_read
        self._group = settings.kafka.group
        self._table = WaitTable(
            settings.registry.url or settings.journal.url,
            group=self._group,
            owner=name,
            lease_s=settings.registry.lease_s,
            statement_timeout_s=settings.journal.timeout_s,
        )
        self._topics = WaitTopics(settings.kafka, topics)
        self._store = StatusStore(connect(settings.redis), self._group, settings.redis)
        self._live_workers = LiveWorkers(self._store, grace_s=settings.redis.heartbeat_ttl_s)
        self._scan = KafkaScan(settings.kafka, committed_only=False)
        self._letters = KafkaScan(settings.kafka, committed_only=False)
        self._fences = engine_of(settings.kafka).fences(settings.kafka)
        self._dlqs = KafkaTopics(settings.kafka, create=settings.worker.create_topics)
        self._known: dict[str, WaitTopic] = {}
        self._source: KafkaSource | None = None
        self._held: PartitionsOwned | None = None
        self._away = {name: ServerOutage(name) for name in ("kafka", "redis", "registry_database")}
        self._topics_due_s = self._look_due_s = 0.0
        self._told: set[tuple[Partition, str]] = set()
        self._is_current = False
        self._hindrance: NotAvailable | None = None
        self.tally = RegistryCounts()

    # its life -------------------------------------------------------------------------------

    def serve(self) -> None:
        """Work until it is to stop; a server that is away is waited for.

        Raises:
            SettingsError: the tables are of another version.
            NotAvailable: a topic was named that does not exist.
        """
        log.info("waits.started", registry=self._name, group=self._group)
        while not self._stopping.is_set():
            self._survive(self._turn)

    def once(self) -> None:
        """Work until all our partitions are read and due requests are moved.

        Raises:
            NotAvailable: a server is away, or a topic is missing.
            SettingsError: the tables are of another version.
        """
        while not self._stopping.is_set() and not self._turn():
            for server, outage in self._away.items():
                if outage.is_on:
                    raise NotAvailable(f"{server} is away: see the log, and run it again")
            if self._hindrance is not None:
                raise self._hindrance
        if self._topics.refusal:
            raise NotAvailable(self._topics.refusal)

    def close(self) -> None:
        """End in order: our partitions are free for others at once."""
        with ExitStack() as closing:
            for one in (self._scan, self._letters, self._fences, self._table, self._store):
                closing.callback(one.close)
            closing.callback(self._leave)
        log.info("waits.stopped", expired=self.tally.expired)

    def _leave(self) -> None:
        held, self._held = self._held, None
        source, self._source = self._source, None
        try:
            if held is not None:
                held.release()
            if source is not None:
                source.close()
        except NotAvailable as error:
            # Leases and membership end by themselves.
            log.warning("waits.not_released", reason=str(error))

    # its turns ------------------------------------------------------------------------------

    def _survive(self, turn: Callable[[], object]) -> None:
        """Take a turn; an outage is said once, and the next turn begins from the table."""
        try:
            turn()
        except JournalUnavailable as error:
            self._rest("registry_database", error)
        except KafkaUnavailable as error:
            self._rest("kafka", error)
        else:
            self._away["registry_database"].ends(_ME)
            self._away["kafka"].ends(_ME)

    def _rest(self, server: str, error: NotAvailable) -> None:
        self._away[server].begins(_ME, error)
        self._on_read()
        self._live_workers.forget()
        if self._held is not None:
            self._held.drop()
        if self._source is None:
            self._stopping.wait(AWAY_S)
            return
        until_s = monotonic_s() + AWAY_S
        self._source.pause()
        try:
            # It stays a member meanwhile.
            while monotonic_s() < until_s and not self._stopping.is_set():
                self._source.poll(POLL_S, max_records=1)
                self._on_read()
        except KafkaUnavailable as fault:
            self._away["kafka"].begins(_ME, fault)
            self._stopping.wait(AWAY_S)
        self._source.resume()

    def _turn(self) -> bool:
        """Read, and look for due requests where it is time; say whether nothing is left to do."""
        if not self._is_current:
            self._table.require_current()
            self._is_current = True
        if monotonic_s() >= self._topics_due_s:
            self._look_for_topics()
        held = self._held
        if held is None:
            self._on_read()
            self._stopping.wait(POLL_S)
            return True
        held.read(POLL_S)
        if monotonic_s() < self._look_due_s:
            return False
        self._look_due_s = monotonic_s() + LOOK_S
        is_done = held.has_all()
        for owned in list(held.owned.values()):
            is_done = self._look(held, owned) and is_done
        if self.tally.is_due(monotonic_s()):
            self.tally.say(self._table.standing(list(held.owned)), now_s=monotonic_s())
        return is_done

    def _look_for_topics(self) -> None:
        found = self._topics.find(self._table.topics())
        self._topics_due_s = monotonic_s() + TOPICS_S
        if found == self._known:
            return
        self._leave()
        self._known = {}
        if not found:
            return
        kafka = self._settings.kafka.model_copy(update={"group": group_of(self._group)})
        self._source = KafkaSource(kafka, sorted(found))
        self._held = PartitionsOwned(
            group=self._group,
            source=self._source,
            table=self._table,
            fences=self._fences,
            topics=found,
            lease_s=self._settings.registry.lease_s,
            tally=self.tally,
            stopping=self._stopping,
            on_read=self._on_read,
        )
        self._mover = self._mover_of(self._held)
        self._known = found

    def _mover_of(self, held: PartitionsOwned) -> ExpiryMover:
        return ExpiryMover(
            group=self._group,
            name=self._name,
            table=self._table,
            scan=self._scan,
            letters=self._letters,
            topics=self._dlqs,
            partitions=held,
            tally=self.tally,
        )

    def _look(self, held: PartitionsOwned, owned: OwnedPartition) -> bool:
        """Move due requests of a partition; say whether nothing is left to be moved now."""
        if held.owned.get(owned.place) is not owned or monotonic_s() < owned.rests_until_s:
            return False
        try:
            return self._expire(held, owned)
        except Stopping:
            pass
        except (LeaseLost, Fenced) as error:
            log.info("waits.not_ours", reason=str(error))
            held.lose(owned)
        except RedisUnavailable as error:
            self._away["redis"].begins(_ME, error)
            self._live_workers.forget()
        except TopicMissing as error:
            log.error("waits.hindered", topic=owned.source, reason=str(error))
            self._hindrance = error
            owned.rests_until_s = monotonic_s() + REST_S
        return False

    def _expire(self, held: PartitionsOwned, owned: OwnedPartition) -> bool:
        if owned.unfinished:
            self.tally.expired += self._mover.go_on(owned)
        held.read_to_end(owned)
        due = self._table.due_holders(owned.place)
        holders = self._live_workers.look(due, now_s=monotonic_s())
        if due:
            self._away["redis"].ends(_ME)
        self._say_held(owned.place, holders.living)
        if not holders.gone:
            return not holders.missing and not owned.unfinished
        rows = self._table.due(owned.place, holders.gone, limit=AT_ONCE)
        if len(rows) == AT_ONCE:
            self._look_due_s = monotonic_s()
        begun = {one.request_id for one in owned.begun}
        self.tally.expired += self._mover.move(
            owned, [one for one in rows if one.request_id not in begun]
        )
        return not rows and not holders.missing

    def _say_held(self, place: Partition, living: Collection[str]) -> None:
        """Count expired requests that are left to living holders; log each of them once."""
        held = self._table.count_due(place, living) if living else 0
        self.tally.held[place] = held
        new = [one for one in living if (place, one) not in self._told]
        if new:
            log.warning("waits.held_past_expiry", topic=place[0], held=held, holder=new[0])
        self._told = {one for one in self._told if one[0] != place}
        self._told.update((place, one) for one in living)
