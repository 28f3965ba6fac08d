"""The thread that keeps the worker alive for others: its lease in SQL, its heartbeat in Redis.

Both are renewed three times within their length. A lease is compared by the database's clock only;
here its end is kept on the monotonic clock, counted from before the renewal was sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from consumer.journal import JournalUnavailable, Leases
from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable, SettingsError
from feedback.logs import EventLog
from feedback.settings import Settings
from feedback.store import StatusStore

log = EventLog("onceward.liveness")


class ForeignJournal(SettingsError):
    """The group already has another journal: two would run requests twice (contract, section 8)."""


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


class Liveness:
    """Renews the lease and the heartbeat until stopped.

    Args:
        leases: with a database connection of its own.
        load: what the heartbeat says of the worker.
        on_foreign_journal: called once when the group turns out to have another journal.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        worker_id: str,
        journal_id: str,
        leases: Leases,
        store: StatusStore,
        load: Callable[[], Mapping[str, object]],
        on_foreign_journal: Callable[[ForeignJournal], None],
    ) -> None:
        self._lease_s = settings.journal.lease_s
        self._pause_s = min(settings.journal.lease_s, settings.redis.heartbeat_ttl_s) / 3
        self._worker_id = worker_id
        self._journal_id = journal_id
        self._leases = leases
        self._store = store
        self._load = load
        self._on_foreign_journal = on_foreign_journal
        self._lease_end_s = 0.0
        self._renewed_since_s: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-liveness", daemon=True)

    def start(self) -> None:
        """Take the lease, tell the first heartbeat, and go on renewing both.

        Raises:
            JournalUnavailable, RedisUnavailable: the worker cannot start without them.
        """
        before_s = monotonic_s()
        self._leases.register(self._lease_s)
        self._lease_end_s = before_s + self._lease_s
        self._renewed_since_s = before_s
        self._store.beat(self._worker_id, self._load())
        self._thread.start()

    def lease_holds(self, now_s: float) -> bool:
        """Whether our lease certainly has not ended yet. It only narrows a window; the
        generation of a claim closes it."""
        return now_s < self._lease_end_s

    def may_sweep(self, now_s: float) -> bool:
        """Whether the database answered for one whole lease, so that everybody could renew."""
        since_s = self._renewed_since_s
        return since_s is not None and now_s - since_s >= self._lease_s and self.lease_holds(now_s)

    def stop(self) -> None:
        """End the renewals; the lease and the heartbeat are given back by `release`."""
        self._stopping.set()
        self._thread.join()

    def release(self) -> None:
        """Say that this worker is gone, so that nobody waits for its lease to end."""
        try:
            self._leases.release()
        except JournalUnavailable as error:
            log.warning("lease.not_released", reason=str(error))
        finally:
            self._leases.close()
        try:
            self._store.end_heartbeat(self._worker_id)
        except RedisUnavailable as error:
            log.warning("heartbeat.not_ended", reason=str(error))

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            self._renew()
            self._beat()

    def _renew(self) -> None:
        before_s = monotonic_s()
        try:
            if self._leases.renew(self._lease_s) is None:
                self._leases.register(self._lease_s)
        except JournalUnavailable as error:
            if self._renewed_since_s is not None:
                log.warning("lease.not_renewed", reason=str(error))
            self._renewed_since_s = None
            return
        was_over = monotonic_s() >= self._lease_end_s
        self._lease_end_s = before_s + self._lease_s
        if self._renewed_since_s is None or was_over:
            # Whatever held us up may have held up the others: they renew before anybody sweeps.
            log.info("lease.renewed_again")
            self._renewed_since_s = before_s

    def _beat(self) -> None:
        try:
            self._store.beat(self._worker_id, self._load())
            check_journal(self._store, self._journal_id)
        except RedisUnavailable:
            return  # the teller says that Redis is away
        except ForeignJournal as error:
            self._on_foreign_journal(error)
