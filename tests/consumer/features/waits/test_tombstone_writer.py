"""When a tombstone follows, and what comes before it where no journal outlives the worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import DEAD_LETTERS, OUTCOMES, PageResults
from consumer.features.outgoing.sending_thread import BATCH
from consumer.features.waits.tombstone_writer import TombstoneWriter
from consumer.features.waits.wait_record import STATUS, Tombstone, WaitRecord, decode_wait
from consumer.handlers.declaration import DeliveryKind
from consumer.journal.waiting import OwedRow
from consumer.status.availability import ServerOutage
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.records.envelope import Record
from feedback.settings.settings import load
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.cores import core_of
from tests.consumer.samples import delivery, payments, row
from tests.eventually import HANG_S, eventually

GROUP = "bank"
KEPT = payments(delivery=DeliveryKind.AT_LEAST_ONCE)


class Kafka:
    """A writer of records, and of letters.

    Attributes:
        unheard: the ids of records that are not acknowledged, each at its first try.
        may_write: while it is not set a write waits.
        writes: how many have begun.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.unheard: set[str] = set()
        self.may_write = threading.Event()
        self.may_write.set()
        self.writes = 0
        self.given_back: list[tuple[str, str | None, int]] = []
        self.refused: set[str] = set()

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]:
        self.writes += 1
        assert self.may_write.wait(HANG_S)
        return [self._write(one) for one in records]

    def _write(self, one: Outgoing) -> KafkaUnavailable | None:
        name, status = (one.key or b"").decode(), dict(one.headers).get(STATUS, b"").decode()
        if name in self.unheard:
            self.unheard.remove(name)
            return NotAcknowledged("timed out")
        if one.value is None:
            self.said.append(f"{name} {status} {one.partition}")
            return None
        said = decode_wait(Record(one.topic, 0, 0, 1, one.key, one.value, one.headers), group=GROUP)
        assert isinstance(said, WaitRecord)
        self.said.append(f"{name} {said.holder} {said.generation}")
        self.given_back.append((said.request_id, said.holder, said.generation))
        return None

    def post(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        rows = [one.row for one in page if one.row.request_id not in self.refused]
        self.said += [f"letter of {row.request_id}: {row.code}" for row in rows]
        yield PageResults(written=rows)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture(params=[True, False], ids=["journal", "none"])
def outlives(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def tombstones(kafka: Kafka, outlives: bool) -> Iterator[TombstoneWriter]:
    made = TombstoneWriter(
        core_of(
            load(kafka={"group": GROUP}, worker={"dead_letters_by_topic": {"silent": "none"}}),
            worker_id="me",
            outlives=outlives,
        ),
        {"payments": KEPT, "loud": replace(KEPT, topic="loud", outcome_topic="o"), "silent": KEPT},
        writer=kafka,  # type: ignore[arg-type]
        letters=kafka,
        recent=RecentFailures(),
        outage=ServerOutage("wait_records"),
    )
    made.start()
    yield made
    made.stop(HANG_S)


def told(name: str, state: State, *, topic: str = "payments", **fields: str) -> StatusWrite:
    facts: dict[str, Any] = {"topic": topic, "partition": "1", "offset": "2", "deadline_at": "9"}
    return StatusWrite(name, state, 1, 1, "sha", fields=facts | fields)


def test_what_is_final_has_a_tombstone_and_what_is_not_has_none(
    tombstones: TombstoneWriter, kafka: Kafka
) -> None:
    tombstones.hear(
        [
            told("a", State.RUNNING),
            told("b", State.SUCCEEDED),
            told("c", State.RETRYING),
            told("d", State.SUCCEEDED, topic="other"),
            told("e", State.FAILED, topic="silent"),
            told("f", State.FAILED, resend="1"),
        ]
    )
    eventually(lambda: len(kafka.said) == 3, timeout_s=30)
    assert kafka.said == ["b SUCCEEDED None", "e FAILED None", "f FAILED None"]


def test_a_failure_that_is_told_again_ends_no_run_that_a_redrive_has_asked_for(
    tombstones: TombstoneWriter, kafka: Kafka, outlives: bool
) -> None:
    again = [
        told("a", State.FAILED, resend="1")._replace(restore=True),
        told("b", State.SUCCEEDED)._replace(restore=True),
    ]
    tombstones.hear(again)
    eventually(lambda: kafka.said == ["b SUCCEEDED None"], timeout_s=30)


def test_a_failure_waits_for_its_letter_where_the_journal_ends_with_the_worker(
    tombstones: TombstoneWriter, kafka: Kafka, outlives: bool
) -> None:
    tombstones.hear([told("a", State.FAILED), told("b", State.SUCCEEDED)])
    expected = ["a FAILED None", "b SUCCEEDED None"] if outlives else ["b SUCCEEDED None"]
    eventually(lambda: kafka.said == expected, timeout_s=30)
    tombstones.done(DEAD_LETTERS, [row("a", "FAILED"), row("unknown", "FAILED")])
    eventually(lambda: "a FAILED None" in kafka.said, timeout_s=30)


def test_a_letter_that_was_quicker_than_the_word_is_not_waited_for(
    tombstones: TombstoneWriter, kafka: Kafka
) -> None:
    tombstones.done(DEAD_LETTERS, [row("a", "FAILED")])
    tombstones.hear([told("a", State.FAILED)])
    eventually(lambda: kafka.said == ["a FAILED None"], timeout_s=30)


def test_a_failure_with_an_outcome_waits_for_both(
    tombstones: TombstoneWriter, kafka: Kafka, outlives: bool
) -> None:
    tombstones.hear([told("a", State.FAILED, topic="loud")])
    tombstones.done(OUTCOMES, [row("a", "FAILED")])
    if not outlives:
        assert kafka.said == []
    tombstones.done(DEAD_LETTERS, [row("a", "FAILED")])
    eventually(lambda: kafka.said == ["a FAILED None"], timeout_s=30)


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        (State.EXPIRED, "", "EXPIRED"),
        (State.IN_DOUBT, "WORKER_DIED", "WORKER_DIED"),
    ],
)
def test_what_has_no_letter_otherwise_gets_it_before_its_tombstone(
    tombstones: TombstoneWriter, kafka: Kafka, state: State, code: str, reason: str
) -> None:
    tombstones.hear([told("a", state, code=code)])
    eventually(lambda: len(kafka.said) == 2, timeout_s=30)
    assert kafka.said == [f"letter of a: {reason}", f"a {state} None"]


def test_a_doubt_that_a_person_may_resolve_is_no_letter_but_where_nobody_could(
    tombstones: TombstoneWriter, kafka: Kafka, outlives: bool
) -> None:
    tombstones.hear([told("a", State.IN_DOUBT, code="IN_DOUBT")])
    expected = ["a IN_DOUBT None"] if outlives else ["letter of a: IN_DOUBT", "a IN_DOUBT None"]
    eventually(lambda: kafka.said == expected, timeout_s=30)


def test_what_was_taken_over_ends_where_its_wait_record_stands_under_its_key(
    tombstones: TombstoneWriter, kafka: Kafka
) -> None:
    record = Record("payments", 0, 5, 1, None, b"v", ())
    tombstones.took(WaitRecord("by-hand", 2, "me", 99, record), 7, ends_as="payments-0-5-1")
    tombstones.hear([told("payments-0-5-1", State.SUCCEEDED)])
    eventually(lambda: kafka.said == ["by-hand SUCCEEDED 7"], timeout_s=30)


def test_what_is_given_back_is_any_workers(tombstones: TombstoneWriter, kafka: Kafka) -> None:
    taken = delivery("taken")._replace(taken=3)
    tombstones.given_back([delivery("a"), delivery("due")._replace(wakes=1), taken])
    eventually(lambda: len(kafka.given_back) == 2, timeout_s=30)
    assert kafka.given_back == [("a", "", 2), ("taken", "", 4)]


def test_a_record_that_came_too_late_goes_again(tombstones: TombstoneWriter, kafka: Kafka) -> None:
    record = Record("payments", 0, 5, 1, None, b"v", ())
    tombstones.ended_before(WaitRecord("a", 2, "me", 99, record), 3)
    eventually(lambda: kafka.said == ["a  3"], timeout_s=30)
    assert decode_wait(
        Record("payments.bank.wait", 3, 0, 1, b"a", None, ()), group=GROUP
    ) == Tombstone("a")


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "unheard"])
def test_all_of_a_request_is_written_in_its_order_though_one_is_tried_again(
    tombstones: TombstoneWriter, kafka: Kafka, is_heard: bool
) -> None:
    wait = WaitRecord("a", 2, "peer", 99, Record("payments", 0, 5, 1, None, b"v", ()))
    kafka.may_write.clear()
    tombstones.hear([told("first", State.SUCCEEDED)])
    eventually(lambda: kafka.writes == 1)
    # These wait together then.
    tombstones.put_right(wait, 3)
    tombstones.ended_before(wait, 3)
    tombstones.put_right(wait._replace(generation=3), 3)
    tombstones.hear([told("b", State.SUCCEEDED)])
    if not is_heard:
        kafka.unheard.add("a")
    kafka.may_write.set()
    eventually(lambda: len(kafka.said) == 5)
    assert [one for one in kafka.said if one.startswith("a ")] == ["a peer 2", "a  3", "a peer 3"]
    # All that can be is written with the first of them.
    assert kafka.said.index("b SUCCEEDED None") == (2 if is_heard else 1)


def test_a_letter_that_cannot_be_written_holds_up_nobody_elses_end(
    tombstones: TombstoneWriter, kafka: Kafka
) -> None:
    kafka.refused = {f"stuck-{number}" for number in range(2 * BATCH)}
    tombstones.hear([told(name, State.EXPIRED) for name in sorted(kafka.refused)])
    tombstones.hear([told("a", State.SUCCEEDED)])
    eventually(lambda: "a SUCCEEDED None" in kafka.said, timeout_s=30)
    # Nor another letter, which is behind more of them than are written together.
    tombstones.hear([told("b", State.EXPIRED)])
    eventually(lambda: "b EXPIRED None" in kafka.said)
    assert kafka.said == ["a SUCCEEDED None", "letter of b: EXPIRED", "b EXPIRED None"]
    kafka.refused.clear()
    eventually(lambda: len(kafka.said) == 3 + 2 * 2 * BATCH)
