"""The worker's part, played by the test: it tells statuses through the store, as a worker does."""

from redis import Redis

from feedback.redis.deadlines import Deadlines
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import BEFORE_CLAIM, State
from feedback.statuses import StatusWrite

WORKER_ID = "host-1-abc"


class UnheardStore(StatusStore):
    """Statuses as ever, but their events go where nobody listens."""

    def events_channel(self, request_id: str) -> str:
        """Return a channel of no subscriber."""
        return f"unheard:{super().events_channel(request_id)}"


class Worker:
    """One worker of the group, as far as Redis can see."""

    def __init__(self, redis: Redis, group: str, settings: RedisSection) -> None:
        self.store = StatusStore(redis, group, settings)
        self.unheard = UnheardStore(redis, group, settings)

    def tell(self, request_id: str, state: State, *, is_heard: bool = True, **fields: str) -> None:
        """Tell a status of a request as its first run would."""
        known = self.store.read(request_id)
        assert known.payload_sha256 is not None
        write = StatusWrite(
            request_id=request_id,
            state=state,
            attempt=known.attempt,
            generation=0 if state in BEFORE_CLAIM else 1,
            payload_sha256=known.payload_sha256,
            fields=fields,
        )
        assert (self.store if is_heard else self.unheard).write([write]) == [None]

    def take_due(self, request_id: str) -> None:
        """Take the request as a resender does whose look is due, and do no more."""
        self.store.redis.zadd(self.store.deadlines_key, {request_id: 0})
        assert request_id in Deadlines(self.store).take(1000, lease_s=30).request_ids

    def send_again(self, request_id: str) -> None:
        """Tell the next attempt, as a resender does just before it sends it."""
        known = self.store.read(request_id)
        again = StatusWrite(
            request_id=request_id,
            state=State.PENDING,
            attempt=known.attempt + 1,
            generation=0,
            payload_sha256=known.payload_sha256 or "",
        )
        assert self.store.write([again]) == [None]

    def accept(self, request_id: str) -> None:
        """Tell that the request is in this worker's buffer."""
        self.tell(request_id, State.ACCEPTED, worker=WORKER_ID)

    def give_up(self, request_id: str) -> None:
        """Tell that the request is in nobody's buffer."""
        self.tell(request_id, State.ACCEPTED, worker="")

    def live(self) -> None:
        """Have a heartbeat until `die`, also while the test stands still."""
        self.store.beat(WORKER_ID, {})
        self.store.redis.persist(self.store.worker_key(WORKER_ID))

    def die(self) -> None:
        """Have a heartbeat no longer."""
        self.store.end_heartbeat(WORKER_ID)

    def lose_all(self) -> None:
        """Remove every key of the group, as a Redis that came back empty."""
        for key in self.store.redis.scan_iter(f"{self.store.prefix}*", count=1000):
            self.store.redis.delete(key)

    def traces(self) -> list[str]:
        """Return every key that the group has in Redis."""
        found = self.store.redis.scan_iter(f"{self.store.prefix}*", count=1000)
        return sorted(key.decode() for key in found)

    def looked_at(self, request_id: str) -> float | None:
        """Return when the resender looks at the request (epoch ms), None when never."""
        found: float | None = self.store.redis.zscore(self.store.deadlines_key, request_id)
        return found
