"""Outcomes, retries, dead letters, wait records and tombstones on audited topics: no request of
theirs is accused, and each is counted as what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from kafka import KafkaProducer

from feedback.errors import ExitCode
from feedback.records.envelope import ATTEMPT, DEADLINE, REQUEST_ID, outcome_id, payload_sha256
from spark_audit.output.paths import DayPaths
from spark_audit.stage.window import Window
from tests.spark_audit.run.scene import IDS, LOST, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = pytest.mark.timeout(300)

NOON_MS = BEGIN_MS + DAY_MS // 2
NEXT_MS = BEGIN_MS + DAY_MS
NEXT = Window(f"{datetime.fromtimestamp(NEXT_MS / 1000, UTC):%Y-%m-%d}", NEXT_MS, NEXT_MS + DAY_MS)
ENDED = [request_id for request_id in IDS if request_id != LOST]
Headers = list[tuple[str, bytes]]
Write = Callable[..., None]


@pytest.fixture
def write(scene: Scene) -> Write:
    """Return a function that writes records with these headers to a topic."""

    def all_of(topic: str, headers: Sequence[Headers], value: bytes | None = b"{}") -> None:
        producer = KafkaProducer(bootstrap_servers=scene.servers.kafka)
        for number, given in enumerate(headers):
            key = f"key-{number}".encode()
            producer.send(topic, value, key, given, partition=0, timestamp_ms=NOON_MS + 1)
        producer.close()

    return all_of


def _outcomes(ids: Sequence[str]) -> list[Headers]:
    return [
        [
            (REQUEST_ID, request_id.encode()),
            ("onceward-status", b"SUCCEEDED"),
            ("onceward-generation", b"1"),
            ("onceward-outcome-id", outcome_id(request_id, 1).encode()),
        ]
        for request_id in ids
    ]


def _outcomes_that_the_group_reads(scene: Scene, topic: str, write: Write) -> int:
    """Let the group have done what outcomes asked for, and return how many those are."""
    write(topic, _outcomes(ENDED))
    scene.commit(topic, len(ENDED))
    for offset, request_id in enumerate(ENDED):
        scene.journal.add_request(
            outcome_id(request_id, 1),
            topic=topic,
            offset=offset,
            payload_sha256=payload_sha256(f"key-{offset}".encode(), b"{}"),
        )
    return len(ENDED)


def test_what_is_no_request_is_counted_as_what_it_is_and_outcomes_that_are_read_are_requests(
    scene: Scene, topic: Callable[..., str], write: Write
) -> None:
    own = f"{scene.topic}.{scene.journal.group}"
    outcomes, read_ones = topic(1), topic(1)
    retry, wait, letters = (topic(1, name=f"{own}.{one}") for one in ("retry.5s", "wait", "dlq"))
    write(outcomes, _outcomes(IDS))
    write(outcomes, [[]] * 2, None)
    named: list[Headers] = [
        [(REQUEST_ID, b"r-5"), (ATTEMPT, b"1"), (DEADLINE, b"%d" % (NOON_MS + 3_600_000))]
    ]
    write(retry, [[*named[0], ("onceward-due", b"1"), ("onceward-generation", b"1")]])
    write(wait, [[*named[0], ("onceward-expires", b"%d" % NOON_MS)]] * 3)
    write(wait, [[("onceward-status", b"SUCCEEDED")]], None)
    scene.journal.change(
        "UPDATE onceward_request SET state = 'FAILED', code = 'REJECTED' WHERE request_id = 'r-7'"
    )
    write(letters, [[(REQUEST_ID, b"r-7"), ("DLQ_REQUEST_ID", b"r-7"), ("DLQ_REASON", b"NO")]])
    requests = len(IDS) + _outcomes_that_the_group_reads(scene, read_ones, write)

    every = (scene.topic, outcomes, read_ones, retry, wait, letters)
    audited = scene.audit(scene.settings(topics=every), fail_on="ran_twice>0,overdue>0")
    assert audited.exit_code is ExitCode.FINE
    counts = audited.summary["counts"]
    assert counts["requests"] == requests
    assert {name: count for name, count in counts["findings"].items() if count} == {"lost": 1}
    counted = Counter(request=requests, outcome=12, tombstone=3, retry=1, wait=3, dlq=1)
    assert counts["records"] == counted
    # Its outcome says that the lost one has ended: it is found, and not offered for sending.
    report = DayPaths(scene.output, DATE).report
    assert (report / "resend.jsonl").read_text() == ""


# No database takes the first byte within text; the others would end a text, or begin a command.
HOSTILE = b"a\x00'\"\\;{fn}"
NAMES = (
    *(REQUEST_ID, ATTEMPT, DEADLINE, "onceward-outcome-id", "DLQ_REQUEST_ID", "DLQ_REASON"),
    *("ORIGINAL_TOPIC", "ORIGINAL_PARTITION", "ORIGINAL_OFFSET"),
)


def test_no_text_in_a_header_of_any_topic_ends_an_audit_or_the_one_after_it(
    scene: Scene, topic: Callable[..., str], write: Write
) -> None:
    own = f"{scene.topic}.{scene.journal.group}"
    outcomes = topic(1)
    aside = (topic(1, name=f"{own}.{one}") for one in ("retry.5s", "wait", "dlq"))
    every = (scene.topic, outcomes, *aside)
    alone: list[Headers] = [[(name, HOSTILE)] for name in NAMES]
    ended = [(REQUEST_ID, HOSTILE), ("onceward-outcome-id", b"an-outcome")]
    placed = [("ORIGINAL_TOPIC", scene.topic.encode()), ("ORIGINAL_PARTITION", b"0")]
    placed += [("ORIGINAL_OFFSET", b"1"), ("DLQ_REQUEST_ID", HOSTILE), ("DLQ_REASON", HOSTILE)]
    for name in every:
        write(name, [*alone, ended, placed])
    settings = scene.settings(topics=every)
    audited = scene.audit(settings, fail_on="ran_twice>0")
    assert audited.exit_code is ExitCode.FINE
    # It begins with what the day before has left open.
    after = scene.audit(settings, NEXT, fail_on="ran_twice>0")
    assert after.exit_code is ExitCode.FINE
