"""Waits for a status to change: by event, with polling as the fallback.

One thread and one Redis connection serve all waits of a process. A missed event costs one polling
interval, never correctness: the caller reads the status itself again.

Theory of operation. Callers subscribe and unsubscribe in their own threads, under the lock, because
a subscription that waited for the listening thread would come too late for a fast request. Only
that thread reads, and only it replaces a connection after a fault, with all subscriptions at once.
Two facts to know before editing:

- A watch begins when Redis has confirmed its subscriptions. Before that, a change that is published
  over another connection could pass between the caller's read and the first event. A watch may
  begin without the confirmation, because Redis is slow or away. It counts as changed when it is
  confirmed.
- A connection always has one channel that nobody publishes on. Without it, redis-py's PubSub
  forgets its subscriptions when its last channel goes while another thread adds the next.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue

from redis import Redis
from redis.client import PubSub
from redis.exceptions import RedisError

from feedback.redis.store import StatusStore
from feedback.wakeups import Wakeups, begin

CONFIRMED_S = 0.25
READ_S = 0.25
AWAY_PAUSE_S = 0.5
# The last three: a send that fails closes the socket, and redis-py's read then raises them.
FAULTS = (RedisError, OSError, ValueError, AttributeError, TypeError)


class ChangeWatch:
    """The published changes of some requests. Made by `EventListener.watch`."""

    def __init__(self, states: Collection[str] | None = None) -> None:
        self._states = states
        self.has_begun = False
        # Filled and emptied by single calls in C: an interrupted wait leaves no lock held.
        self._changed: SimpleQueue[str] = SimpleQueue()

    def tell(self, request_ids: Iterable[str], state: str | None = None) -> None:
        """Note that requests changed to `state` (None: unknown), and wake the waiting caller."""
        if state is not None and self._states is not None and state not in self._states:
            return
        for request_id in request_ids:
            self._changed.put(request_id)

    def wait(self, timeout_s: float) -> set[str]:
        """Return the requests that changed since the last call, after at most `timeout_s`."""
        changed: set[str] = set()
        with contextlib.suppress(Empty):
            changed.add(self._changed.get(timeout=max(0.0, timeout_s)))
            while True:
                changed.add(self._changed.get_nowait())
        return changed


class EventListener:
    """Receives the events of the requests that threads of this process wait for.

    Args:
        redis: from `feedback.redis.server.connect`; the first wait takes one of its connections.
        store: names the channels.
    """

    def __init__(self, redis: Redis, store: StatusStore) -> None:
        self._redis = redis
        self._store = store
        self._pubsub: PubSub | None = None
        self._broken = False
        self._confirmed: set[str] = set()
        self._watches: dict[str, set[ChangeWatch]] = {}
        self._ids: dict[str, str] = {}
        self._lock = threading.RLock()
        self._changed = Wakeups()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._closing = Wakeups()

    @contextlib.contextmanager
    def watch(
        self,
        request_ids: Sequence[str],
        *,
        states: Collection[str] | None = None,
        within_s: float | None = None,
    ) -> Iterator[ChangeWatch]:
        """Receive the changes of these requests until the block is left.

        With Redis away there are no events and no error: the caller's polling finds out. When it is
        back all watched requests count as changed.

        Args:
            states: only changes to one of these; None for all.
            within_s: how long the caller has, if that is less than Redis may take to confirm.
        """
        watch = ChangeWatch(states)
        channels = {self._store.events_channel(one): one for one in request_ids}
        with self._lock:
            fresh = [channel for channel in channels if channel not in self._watches]
            for channel in channels:
                self._watches.setdefault(channel, set()).add(watch)
            self._ids.update(channels)
            self._hear(fresh)
        self._changed.wait_for(
            lambda: self._broken or self._confirmed >= channels.keys(),
            CONFIRMED_S if within_s is None else min(CONFIRMED_S, within_s),
        )
        with self._lock:
            watch.has_begun = True
        try:
            yield watch
        finally:
            self._leave(watch, channels)

    @property
    def is_closed(self) -> bool:
        """Whether listening has ended; every watch has then been woken."""
        return self._is_closed

    def wake_all(self) -> None:
        """Stop listening, and wake the waiting callers."""
        self._is_closed = True
        self._closing.notify()
        with self._lock:
            for channel, watches in self._watches.items():
                for watch in watches:
                    watch.tell([self._ids[channel]])

    def close(self) -> None:
        """Stop listening and close the connection."""
        self.wake_all()
        if self._thread is not None:
            # One that has not begun yet sees that it is to end.
            with contextlib.suppress(RuntimeError):
                self._thread.join()
        with self._lock:
            self._disconnect()

    def _leave(self, watch: ChangeWatch, channels: Iterable[str]) -> None:
        with self._lock:
            for channel in channels:
                self._watches[channel].discard(watch)
            gone = [channel for channel in channels if not self._watches[channel]]
            for channel in gone:
                del self._watches[channel], self._ids[channel]
            self._confirmed.difference_update(gone)
            if gone and self._pubsub is not None and not self._broken:
                with self._noting_faults():
                    self._pubsub.unsubscribe(*gone)  # type: ignore[no-untyped-call]

    def _hear(self, fresh: Sequence[str]) -> None:
        """Subscribe, under the lock; after a failure here the listening thread subscribes again."""
        with self._noting_faults():
            # The thread connects, which may take long, and then subscribes to all channels.
            if fresh and self._pubsub is not None and not self._broken:
                self._pubsub.subscribe(*fresh)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._listen, name="onceward-events", daemon=True
            )
            begin(self._thread)

    @contextlib.contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except FAULTS:
            self._broken = True

    def _listen(self) -> None:
        while not self._is_closed:
            try:
                self._read(self._connected())
            except FAULTS:
                with self._lock:
                    self._broken = True
                    self._changed.notify()
                self._closing.wait_for(lambda: self._is_closed, AWAY_PAUSE_S)

    def _connected(self) -> PubSub:
        with self._lock:
            if self._pubsub is not None and not self._broken:
                return self._pubsub
            self._disconnect()
            self._confirmed.clear()
        pubsub = self._connect()
        with self._lock:
            self._pubsub, self._broken = pubsub, False
            if self._watches:
                pubsub.subscribe(*self._watches)
        return pubsub

    def _connect(self) -> PubSub:
        pubsub: PubSub = self._redis.pubsub()  # type: ignore[no-untyped-call]
        pubsub.subscribe(f"{self._store.prefix}events")
        return pubsub

    def _disconnect(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None

    def _read(self, pubsub: PubSub) -> None:
        message = pubsub.get_message(timeout=READ_S)
        if message is None:
            return
        channel = message["channel"].decode()
        with self._lock:
            watches = list(self._watches.get(channel, ()))
            request_id = self._ids.get(channel)
            if message["type"] == "subscribe" and request_id is not None:
                self._confirmed.add(channel)
                self._changed.notify()
                # For a watch that has begun this comes late: missed events are unknown.
                for watch in watches:
                    if watch.has_begun:
                        watch.tell([request_id])
        if message["type"] == "message" and request_id is not None:
            for watch in watches:
                watch.tell([request_id], message["data"].decode())
