"""Resenders under test: in this process, or `onceward-client resend` as users run it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from feedback.clock import epoch_ms
from feedback.records.envelope import Record, decode_headers
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from producer_client.resender.resender import Resender
from producer_client.resender.resends import ResentRequest
from tests.eventually import HANG_S, eventually
from tests.kit.program import StartedProgram


def attempts_of(records: Iterable[Record]) -> dict[str, list[int]]:
    """Return the attempts of each request that lies in a topic, in their order there."""
    found: dict[str, list[int]] = {}
    for record in records:
        envelope = decode_headers(record)
        found.setdefault(envelope.request_id, []).append(envelope.attempt)
    return found


def look_now(store: StatusStore, request_id: str, in_s: float = -1.0) -> None:
    """Have resenders look at a request now, as if its time had come, or in so many seconds."""
    store.redis.zadd(store.deadlines_key, {request_id: epoch_ms() + int(in_s * 1000)})


class Running:
    """A resender in this process, and what it sent again."""

    def __init__(self, settings: Settings) -> None:
        self.resent: list[ResentRequest] = []
        self.resender = Resender(settings, on_resent=self.resent.append)
        self.resender.start()

    def ids(self) -> list[str]:
        """Return the ids of what it sent again, in order."""
        return [one.request_id for one in self.resent]

    def sends(self, count: int, *, timeout_s: float = HANG_S) -> list[ResentRequest]:
        """Return what it sent again when that is so many."""
        eventually(lambda: len(self.resent) >= count, timeout_s=timeout_s, what=f"{count} resends")
        return list(self.resent)


@contextmanager
def running(settings: Settings) -> Iterator[Running]:
    """Yield a resender that works until the block is left."""
    one = Running(settings)
    try:
        yield one
    finally:
        one.resender.close()


class ClientProgram(StartedProgram):
    """`onceward-client resend --json` as a process of its own.

    Args:
        folder: for what it prints and logs.
        argv: another command of `onceward-client`.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        name: str,
        *options: str,
        argv: Sequence[str] = ("resend", "--json"),
    ) -> None:
        super().__init__(
            (sys.executable, "-m", "producer_client", *argv, *options),
            log=folder / f"{name}.log",
            environ=environment,
            output=folder / f"{name}.out",
        )


@contextmanager
def process(
    environment: Mapping[str, str], folder: Path, name: str = "resender", *options: str
) -> Iterator[ClientProgram]:
    """Yield a process that has started, and is gone after the block."""
    one = ClientProgram(environment, folder, name, *options)
    try:
        one.told("resender.started")
        yield one
    finally:
        one.kill()
