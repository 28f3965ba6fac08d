"""The thread that tells Redis that the worker is alive, and that two journals never serve a group.

Nor two servers with one journal: of a database that was failed over from, the timeline is lower.

It hears as well which start of the server answers, and with which contents: another `run_id` means
that Redis may have come back empty, another word of its contents that it was emptied (`FLUSHALL`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from consumer.status.availability import ServerOutage
from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable, SettingsError
from feedback.logs import EventLog
from feedback.redis.store import StatusStore

log = EventLog("onceward.heartbeat")

# Back after an outage, a worker must not be taken for dead for longer than this.
AWAY_PAUSE_S = 0.5
STOP_S = 1.0
_ME = "heartbeat"


class ForeignJournal(SettingsError):
    """The group already has another journal: two would run requests twice (docs: Tables)."""

    entry = "check-group"


def check_journal(store: StatusStore, journal_id: str) -> None:
    """Put the journal's id into Redis, or compare it with the one that stands there.

    Raises:
        ForeignJournal: another journal serves this group.
        RedisUnavailable: Redis did not answer.
    """
    compare_journals(store, stands=store.agree_on_journal(journal_id), mine=journal_id)


def compare_journals(store: StatusStore, *, stands: str, mine: str) -> None:
    """Return when the group's journal is this one.

    Args:
        stands: the id that the group has in Redis.
        mine: the id of the journal that is configured here.

    Raises:
        ForeignJournal: another journal serves this group.
    """
    if stands != mine:
        raise ForeignJournal(
            f"this group's journal is {stands}, not {mine}: two journals would run requests "
            f"twice. Point [journal] url at the group's one journal; only if that one is gone for "
            f"good, delete the Redis key {store.journal_key}"
        )


def check_timeline(store: StatusStore, mine: int | None) -> None:
    """Put the timeline of the journal's database into Redis, or compare it with the one there.

    Args:
        mine: None where there is none.

    Raises:
        ForeignJournal: a standby was promoted, and this is the server that it followed.
        RedisUnavailable: Redis did not answer.
    """
    if mine is not None:
        compare_timelines(store, stands=store.agree_on_timeline(mine), mine=mine)


def compare_timelines(store: StatusStore, *, stands: int, mine: int) -> None:
    """Return when the group's database has not gone on elsewhere.

    Args:
        stands: the highest timeline that a worker of the group has seen.
        mine: that of the database that is configured here.

    Raises:
        ForeignJournal: it has: two servers would run requests twice.
    """
    if stands > mine:
        raise ForeignJournal(
            f"this group's database has gone on to timeline {stands}, and the one here is on "
            f"{mine}: a server that a standby was promoted in the place of runs requests twice. "
            f"Shut it down, and point [journal] url at the promoted one; only if the journal was "
            f"moved to this server since (pg_dump, pg_upgrade), delete the Redis key "
            f"{store.timeline_key}"
        )


class Reading(NamedTuple):
    """The timeline of the journal's database, and the monotonic time at which it was asked."""

    timeline: int
    asked_s: float


class Heartbeat:
    """Beats until stopped, three times within `heartbeat_ttl_s`.

    Args:
        load: the worker's figures in the heartbeat.
        outage: told when Redis is away.
        on_foreign_journal: called when the group turns out to have another journal.
        on_run_id: called with each beat's `run_id` of the server, a dot, and the word of its
            contents: another one says that it may have come back empty, or was emptied.

    Attributes:
        timeline: that of the journal's database, as far as it is known. One that is lower than the
            group's ends the worker only when it was asked after that was first seen: at a failover
            one worker sees the new server before another has asked again.
    """

    def __init__(
        self,
        *,
        store: StatusStore,
        worker_id: str,
        journal_id: str,
        heartbeat_ttl_s: float,
        load: Callable[[], Mapping[str, object]],
        outage: ServerOutage,
        on_foreign_journal: Callable[[ForeignJournal], None],
        on_run_id: Callable[[str], None],
    ) -> None:
        self.timeline: Reading | None = None
        self._lower_since_s: float | None = None
        self._store = store
        self._worker_id = worker_id
        self._journal_id = journal_id
        self._pause_s = heartbeat_ttl_s / 3
        self._load = load
        self._outage = outage
        self._on_foreign_journal = on_foreign_journal
        self._on_run_id = on_run_id
        self._redis_away = False
        self._is_first_worker = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-heartbeat", daemon=True)

    def start(self, *, is_first_worker: bool = False) -> None:
        """Tell the first heartbeat and go on.

        Args:
            is_first_worker: whether the group had none before.

        Raises:
            RedisUnavailable: the worker cannot start without it.
        """
        self._is_first_worker = is_first_worker
        self._beat()
        self._is_first_worker = False
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; a thread that waits for a Redis that hangs is left behind, a daemon."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def end(self) -> None:
        """Say that the worker is gone; without Redis the key goes by itself."""
        if self._redis_away or self._thread.is_alive():
            log.warning("heartbeat.not_ended", reason="Redis is away")
            return
        try:
            self._store.end_heartbeat(self._worker_id)
        except RedisUnavailable as error:
            log.warning("heartbeat.not_ended", reason=str(error))

    def _run(self) -> None:
        while not self._stopping.wait(self._next_pause_s()):
            try:
                self._beat()
            except RedisUnavailable as error:
                self._redis_away = True
                self._outage.begins(_ME, error)
            except ForeignJournal as error:
                self._on_foreign_journal(error)
            else:
                self._redis_away = False
                self._outage.ends(_ME)

    def _next_pause_s(self) -> float:
        return min(self._pause_s, AWAY_PAUSE_S) if self._redis_away else self._pause_s

    def _beat(self) -> None:
        run_id = self._store.beat(self._worker_id, self._load())
        # Before it is compared: whoever puts the journal's id there knows that it was not.
        contents = self._store.agree_on_contents(self._journal_id, is_first=self._is_first_worker)
        check_journal(self._store, self._journal_id)
        self._compare_timeline()
        self._on_run_id(f"{run_id}.{contents}")

    def _compare_timeline(self) -> None:
        reading = self.timeline
        if reading is None:
            return
        try:
            check_timeline(self._store, reading.timeline)
        except ForeignJournal:
            is_first = not self._thread.is_alive()
            if self._lower_since_s is None:
                self._lower_since_s = monotonic_s()
            if is_first or reading.asked_s > self._lower_since_s:
                raise
        else:
            self._lower_since_s = None
