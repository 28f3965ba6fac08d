"""The status store of one process: the surface of `StatusStore`, with Redis at its other end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from feedback.errors import RedisUnavailable
from feedback.records.stored_payload import StoredPayload
from feedback.redis.memory import RedisMemory
from feedback.settings.sections import KafkaSection
from feedback.statuses import Refused, Replaced, Status, StatusWrite, WriteAnswer, refusals_of
from tests.simulation.processes import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

Found = TypeVar("Found")


class SimulatedSentWrite:
    """See `SentWrite`.

    Args:
        arrive: does the write. It arrives at once, or not before it is asked for its answers, and
            then not at all if the process has died meanwhile.
        at_once: which of the two.
    """

    waited_s = 0.0

    def __init__(self, arrive: Callable[[], list[Refused | None]], *, at_once: bool) -> None:
        self._arrive = arrive
        self._given = arrive() if at_once else None

    def answers(self) -> list[Refused | None]:
        """Return the answers."""
        return self._arrive() if self._given is None else self._given

    def abandon(self) -> None:
        """Nobody reads them."""


class SimulatedStore:
    """The statuses of the group.

    Args:
        process: whose calls these are.
        heartbeat_ttl_ms: how long a heartbeat lives.

    Attributes:
        before_write: called when statuses arrive at Redis.
        known: the statuses that it has read last, by request.
    """

    is_closed = False
    group = KafkaSection().group
    prefix = "onceward:g:"
    journal_key = "onceward:g:journal"

    def __init__(self, world: World, process: Process, *, heartbeat_ttl_ms: int) -> None:
        self._world = world
        self._process = process
        self._ttl_ms = heartbeat_ttl_ms
        self.before_write: Callable[[], None] = lambda: None
        self.known: dict[str, Status] = {}

    def _call(self, what: str, action: Callable[[], Found]) -> Found:
        return self._world.call(self._process, "redis", what, action, RedisUnavailable)

    def write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Refused | None]:
        """Tell a batch of statuses."""
        return refusals_of(self.replace(writes, look_at=look_at))

    def send(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> SimulatedSentWrite:
        """Send a batch of statuses, and tell how it went when that is asked for."""
        return SimulatedSentWrite(
            lambda: self.write(writes, look_at=look_at), at_once=random.random() < 0.5
        )

    def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[WriteAnswer]:
        """Tell a batch of statuses, and say what a next attempt took the place of."""
        if not writes:
            return []
        told = ", ".join(map(_said, writes))

        def write() -> list[WriteAnswer]:
            self.before_write()
            return self._world.redis.write(writes, look_at)

        fault = self._process.armed.pop("tells", None)
        if fault is not None:
            self._process.armed["redis"] = fault
        return self._call(f"tells {told}", write)

    def read(self, request_id: str) -> Status:
        """Return what is known of one request."""
        return self.read_many([request_id])[0]

    def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        """Return the statuses in the order of the ids."""
        found = self._call(
            "~reads statuses", lambda: [self._world.redis.read(one) for one in request_ids]
        )
        self.known.update((one.request_id, one) for one in found)
        return found

    def alive(self, worker_ids: Iterable[str]) -> set[str]:
        """Return which of these workers have a heartbeat."""
        return self._call(
            "~looks at heartbeats", lambda: self._world.redis.alive.intersection(worker_ids)
        )

    def kept_payload(self, request_id: str) -> StoredPayload | None:
        """Return what a resend needs."""
        return self._call("~reads a payload", lambda: self._world.redis.payloads.get(request_id))

    def forget(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None = None,
    ) -> bool:
        """Take back what was told of a sending that certainly was none."""
        return self._call(
            f"forgets attempt {attempt} of {request_id}",
            lambda: self._world.redis.forget(
                request_id, attempt, payload_sha256, deadline_at, replaced
            ),
        )

    def beat(self, worker_id: str, load: Mapping[str, object]) -> str:
        """Say that the worker is alive."""

        def beat() -> str:
            self._world.redis.beat(worker_id, self._ttl_ms)
            return self._world.redis.run_id

        return self._call("~beats", beat)

    def end_heartbeat(self, worker_id: str) -> None:
        """Say that the worker is gone."""
        self._call("ends its heartbeat", lambda: self._world.redis.end_heartbeat(worker_id))

    def agree_on_contents(self, journal_id: str, *, is_first: bool = False) -> str:
        """Return a word that is another one once Redis has lost its contents."""
        return self._call(
            "~asks for its contents",
            lambda: self._world.redis.agree_on_contents(journal_id, is_first=is_first),
        )

    def memory(self, request_id: str | None) -> RedisMemory:
        """Return how far back Redis remembers."""
        return self._call(
            "asks how far back Redis remembers", lambda: self._world.redis.memory(request_id)
        )

    def agree_on_journal(self, journal_id: str) -> str:
        """Put the journal's id there if none is, and return the one that stands."""
        return self._call(
            "~compares the journal's id", lambda: self._world.redis.agree_on_journal(journal_id)
        )


def _said(write: StatusWrite) -> str:
    said = f"{write.request_id}/{write.generation} {write.state}, attempt {write.attempt}"
    return said if write.fields.get("worker") != "" else f"{said}, by nobody"
