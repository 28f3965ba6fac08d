"""The thread that tells Redis that the worker is alive, and that two journals never serve a group.

It hears as well which start of the server answers: another `run_id` means that Redis may have come
back empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from consumer.outage import Outage
from feedback.errors import RedisUnavailable, SettingsError
from feedback.logs import EventLog
from feedback.store import StatusStore

log = EventLog("onceward.heartbeat")

# Back after an outage, a worker must not be taken for dead for longer than this.
AWAY_PAUSE_S = 0.5
STOP_S = 1.0
_ME = "heartbeat"


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


class Heartbeat:
    """Beats until stopped, three times within `heartbeat_ttl_s`.

    Args:
        load: what the heartbeat says of the worker.
        outage: told when Redis is away.
        on_foreign_journal: called when the group turns out to have another journal.
        on_run_id: called with each beat's `run_id` of the server.
    """

    def __init__(
        self,
        *,
        store: StatusStore,
        worker_id: str,
        journal_id: str,
        heartbeat_ttl_s: float,
        load: Callable[[], Mapping[str, object]],
        outage: Outage,
        on_foreign_journal: Callable[[ForeignJournal], None],
        on_run_id: Callable[[str], None],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._journal_id = journal_id
        self._pause_s = heartbeat_ttl_s / 3
        self._load = load
        self._outage = outage
        self._on_foreign_journal = on_foreign_journal
        self._on_run_id = on_run_id
        self._redis_away = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-heartbeat", daemon=True)

    def start(self) -> None:
        """Tell the first heartbeat and go on.

        Raises:
            RedisUnavailable: the worker cannot start without it.
        """
        self._beat()
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
                self._outage.begins(_ME, str(error))
            except ForeignJournal as error:
                self._on_foreign_journal(error)
            else:
                self._redis_away = False
                self._outage.ends(_ME)

    def _next_pause_s(self) -> float:
        return min(self._pause_s, AWAY_PAUSE_S) if self._redis_away else self._pause_s

    def _beat(self) -> None:
        run_id = self._store.beat(self._worker_id, self._load())
        check_journal(self._store, self._journal_id)
        if run_id:
            self._on_run_id(run_id)
