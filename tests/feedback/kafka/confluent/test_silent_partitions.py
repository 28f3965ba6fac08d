"""Which partitions are silent, by what another library gets of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from feedback.errors import SecurityFault, SecurityKind
from feedback.kafka.confluent import silent_partitions
from feedback.kafka.confluent.silent_partitions import (
    AGAIN_S,
    LONG_S,
    SILENCE_S,
    SilentPartitions,
    Unread,
)
from feedback.kafka.errors import KafkaFault, OffsetGone
from feedback.kafka.values import Partition
from tests.feedback.kafka.confluent.other_reader import OtherReader

ONE, OTHER = ("t", 0), ("t", 1)
REFUSED = SecurityFault(SecurityKind.RIGHT, "kafka", "refused")
PASSING = KafkaFault("a leader is being chosen")
PASSING.is_passing = True
UNREAD = {ONE: Unread(5, 9), OTHER: Unread(5, 9)}


class AtOnce:
    """In the place of a thread: does everything at once."""

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        """Do it."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given))
        except RuntimeError as error:
            done.set_exception(error)
        return done

    def shutdown(self) -> None:
        """End."""


class Scene:
    """Silent partitions, and the other library, which answers at once."""

    def __init__(self, other: OtherReader) -> None:
        self.other = other
        self.silent = SilentPartitions(lambda: other)  # type: ignore[arg-type, return-value]

    def named(
        self, unread: dict[Partition, Unread], *, after_s: float = 0.0, paused: Partition = ("", 0)
    ) -> list[Partition]:
        """Return which are silent, after some time and the answer to a question."""
        self.other.now_s += after_s
        wanted = [one for one in (ONE, OTHER) if one != paused]
        self.silent.among(unread, wanted)
        return sorted(self.silent.among(unread, wanted))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return a scene of which the time is the other library's."""
    other = OtherReader()
    other.ends = {ONE: 9, OTHER: 9}
    monkeypatch.setattr(silent_partitions, "monotonic_s", lambda: other.now_s)
    monkeypatch.setattr(silent_partitions, "ThreadPoolExecutor", lambda *_, **__: AtOnce())
    return Scene(other)


def test_one_of_which_nobody_gets_anything_is_named_until_somebody_does(scene: Scene) -> None:
    scene.other.gives = {OTHER}
    assert scene.named(UNREAD) == []
    assert scene.named(UNREAD, after_s=LONG_S - 1) == scene.other.asked == []
    assert scene.named(UNREAD, after_s=1) == [ONE]
    # Soon again, also in its pause; the other one, as seldom as before.
    scene.other.asked.clear()
    assert scene.named(UNREAD, after_s=AGAIN_S, paused=ONE) == []
    assert scene.other.asked == [ONE]
    assert scene.named(UNREAD) == [ONE]
    scene.other.gives = {ONE, OTHER}
    assert scene.named(UNREAD, after_s=AGAIN_S) == []
    assert scene.other.closed == 3


def test_nobody_is_asked_about_one_that_moves_or_is_paused(scene: Scene) -> None:
    for offset in range(9):
        moved = {ONE: Unread(offset, 9), OTHER: Unread(5, 9)}
        assert scene.named(moved, after_s=LONG_S - 1, paused=OTHER) == []
    assert scene.other.asked == []


def test_one_that_moves_or_goes_is_not_silent(scene: Scene) -> None:
    assert scene.named(UNREAD) == []
    assert scene.named(UNREAD, after_s=LONG_S) == [ONE, OTHER]
    assert scene.named({ONE: Unread(6, 9)}) == []
    assert scene.named(UNREAD) == []


def test_a_leader_that_does_not_answer_and_an_open_transaction_are_no_silence(scene: Scene) -> None:
    scene.other.ends = {OTHER: 12}
    scene.other.passes = {OTHER: 9}
    assert scene.named(UNREAD) == []
    assert scene.named(UNREAD, after_s=LONG_S) == []
    assert sorted(scene.other.asked) == [ONE, OTHER]


def test_offsets_without_a_record_are_no_silence_and_hide_none(scene: Scene) -> None:
    scene.other.passes = {ONE: 8}
    assert scene.named({ONE: Unread(5, 9)}) == []
    began_s = scene.other.now_s
    assert scene.named({ONE: Unread(5, 9)}, after_s=LONG_S) == [ONE]
    assert scene.other.now_s > began_s + LONG_S + SILENCE_S


@pytest.mark.parametrize(
    ("fault", "silent"),
    [
        (KafkaFault("its records cannot be taken apart"), [ONE, OTHER]),
        (OffsetGone("behind it"), [OTHER]),
        (PASSING, [OTHER]),
        (KafkaFault("refused").because(REFUSED), [OTHER]),
    ],
)
def test_one_of_which_nobody_can_read_a_batch_is_silent(
    scene: Scene, fault: KafkaFault, silent: list[Partition]
) -> None:
    scene.other.faults = {ONE: fault}
    assert scene.named(UNREAD) == []
    assert scene.named(UNREAD, after_s=LONG_S) == silent


def test_without_an_answer_nothing_is_known(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> OtherReader:
        raise KafkaFault("away")

    assert scene.named(UNREAD) == []
    with monkeypatch.context() as patch:
        patch.setattr(scene.silent, "_connect", away)
        assert scene.named(UNREAD, after_s=LONG_S) == []
    assert scene.named(UNREAD, after_s=AGAIN_S) == [ONE, OTHER]


def test_a_fault_of_the_other_library_ends_no_worker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("of the library")

    monkeypatch.setattr(scene.other, "poll", breaks)
    scene.named(UNREAD)
    assert scene.named(UNREAD, after_s=LONG_S) == []
    assert "of the library" in caplog.text
    monkeypatch.undo()
    assert scene.named(UNREAD, after_s=LONG_S) != []


def test_the_end_of_a_member_ends_a_question() -> None:
    other = OtherReader()
    other.ends = {ONE: 9}
    silent = SilentPartitions(lambda: other)  # type: ignore[arg-type, return-value]
    silent.close()
    silent._ask({(ONE, 5): 9})
    assert other.now_s == 100.0
