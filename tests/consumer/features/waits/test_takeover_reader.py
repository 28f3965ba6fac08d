"""What the keeper of a wait topic does about the records that it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from consumer.features.waits.takeover_reader import TakeoverReader
from consumer.features.waits.wait_record import WaitRecord, encode_wait, tombstone
from consumer.handlers.declaration import DeliveryKind
from consumer.intake.buffer import Buffer
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import load
from tests.consumer.cores import core_of
from tests.consumer.samples import payments

GROUP = "bank"
RECORD = Record("payments", 0, 1, 5, None, b"v", ())


class Source:
    """A partition of a wait topic, read to its end with each poll."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._next = 0

    def write(self, *written: Outgoing) -> None:
        for one in written:
            at = len(self._records)
            self._records.append(
                Record(one.topic, 3, at, 7, one.key, one.value, one.headers),
            )

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        found, self._next = self._records[self._next :], len(self._records)
        return found

    def take_revoked(self) -> set[Partition]:
        return set()

    def is_read(self, partition: Partition) -> bool:
        return True


class Living:
    """Every worker lives."""

    def alive(self, worker_ids: Collection[str]) -> set[str]:
        return {*worker_ids}


class Ends:
    """Notes which records go again."""

    def __init__(self) -> None:
        self.gone: list[tuple[str, int, int]] = []

    def ended_before(self, wait: WaitRecord, partition: int) -> None:
        self.gone.append((wait.request_id, wait.generation, partition))


class Takings:
    """Nothing is taken over."""

    def hold(self, waits: Iterable[tuple[WaitRecord, int | None]]) -> list[None]:
        assert not [*waits]
        return []


class Scene:
    """A keeper that takes its turns here."""

    def __init__(self) -> None:
        handler = payments(delivery=DeliveryKind.AT_LEAST_ONCE)
        core = core_of(
            load(kafka={"group": GROUP}),
            store=Living(),
            buffer=Buffer(8),
            outlives=True,
        )
        self.source, self.ends = Source(), Ends()
        ends: Any = self.ends
        takings: Any = Takings()
        self._keeper = TakeoverReader(
            core, {"payments": handler}, takings=takings, tombstones=ends, open_source=lambda: None
        )

    def turn(self, *written: Outgoing) -> None:
        """Have the keeper read these."""
        source: Any = self.source
        source.write(*written)
        self._keeper._turn(source)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def wait(holder: str, generation: int = 1) -> Outgoing:
    return encode_wait(WaitRecord("id", generation, holder, 1000, RECORD), group=GROUP)


def end(generation: int = 1, status: str = "SUCCEEDED") -> Outgoing:
    return tombstone(
        "id", topic="payments", group=GROUP, generation=generation, worker="w", status=status
    )


def test_what_puts_a_record_right_behind_its_end_goes_again(scene: Scene) -> None:
    scene.turn(wait("dead"))
    scene.turn(wait("first", 2), wait("second", 2), end(), wait("first", 2))
    assert scene.ends.gone == [("id", 2, 3)]


def test_behind_an_end_that_was_there_already_nobody_knows_what_compaction_removed(
    scene: Scene,
) -> None:
    scene.turn(end(), wait("later", 2))
    assert scene.ends.gone == []
