"""No bytes of others end a process: each boundary refuses them by its own error.

`make test` takes few examples, `make fuzz` many. The explicit examples were found by it.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from consumer.dlq.decoded import decoded
from consumer.dlq.dialects.letter_headers import letter_of, without_own
from consumer.dlq.exporting import letter_columns
from consumer.dlq.letter_state import LetterState
from consumer.features.retries import headers as retries
from consumer.features.waits import wait_record as waits
from consumer.handlers.backoff import Tiers
from consumer.pool.frames import FrameDecoder, MalformedFrame, encode_frame
from consumer.pool.wire import unpack_report
from feedback.errors import InvalidMessage, NewerStatus, SettingsError
from feedback.records import envelope, failure_headers
from feedback.records.envelope import MAX_ATTEMPT, MAX_EPOCH_MS, Record, decode_headers
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import load
from feedback.statuses import decode_hash, status_of
from producer_client.commands.jsonl import BadLine, read_submissions
from producer_client.submission import prepare
from tests.consumer.samples import payments

fuzzed = settings(max_examples=int(os.environ.get("ONCEWARD_FUZZ_EXAMPLES", "60")))
HANDLER = payments(retry_on=(OSError,), retries=Tiers.parse("1s, 5s"))
DEEP = 100_000
# Around the depth at which Python's own reader gives up.
NESTED = st.integers(0, 1200).map(lambda depth: b"[" * depth + b"]" * depth)
NUMBERS = st.integers(-(2**70), 2**70).map(lambda one: b"%d" % one) | st.sampled_from(
    [b"", b"-1", b"0", b"007", b"1e5", b"9" * 19, b"9" * 5000, "١٢".encode(), b" 1", b"1_0"]
)
BYTES = NUMBERS | st.binary(max_size=40) | st.text(max_size=20).map(lambda one: one.encode())
NAMES = st.sampled_from(
    sorted(
        {
            value
            for of in (envelope, failure_headers, retries, waits)
            for value in vars(of).values()
            if isinstance(value, str) and value[:3] in ("onc", "ORI", "DLQ", "tra")
        }
        | {
            "kafka_dlt-original-offset",
            "kafka_original-partition",
            "__connect.errors.topic",
            "__streams.errors.topic.name",
            "__dlq.errors.topic",
            "dead-letter-offset",
            "dead-letter-reason",
            "source_offset",
            "source_key",
            "source_topic",
        }
    )
) | st.text(max_size=8)
RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["payments", "payments.g.wait", "payments.g.dlq"]),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    key=st.none() | BYTES,
    value=st.none() | BYTES | NESTED,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=12).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda some: (
        st.lists(some, max_size=4)
        | st.dictionaries(
            st.text(max_size=4)
            | st.sampled_from(
                [
                    "topic",
                    "key",
                    "value",
                    "headers",
                    "started",
                    "asked",
                    "finished",
                    "ready",
                    "failed",
                    "declarations",
                    "request_id",
                    "deadline_s",
                    "value_base64",
                    "audit",
                ]
            ),
            some,
            max_size=6,
        )
    ),
)
TEXTS = JSON.map(lambda one: json.dumps(one).encode()) | NESTED | st.binary(max_size=60)


@fuzzed
@given(RECORDS)
def test_headers_of_a_record(record: Record) -> None:
    with suppress(InvalidMessage):
        found = decode_headers(record)
        assert 1 <= len(found.request_id) <= 128
        assert 1 <= found.attempt <= MAX_ATTEMPT
        assert found.deadline_at is None or 0 <= found.deadline_at <= MAX_EPOCH_MS


@fuzzed
@given(RECORDS)
def test_a_retry_record(record: Record) -> None:
    with suppress(InvalidMessage):
        due = retries.read_wakeup(record, HANDLER, now_s=0.0)
        place = due.delivery.record
        assert 0 <= place.partition < 2**31 and 0 <= place.offset < 2**63
        assert -1 <= place.timestamp_ms < 2**63
        assert 0 <= due.due_at < 2**63


@fuzzed
@given(RECORDS)
def test_a_wait_record(record: Record) -> None:
    with suppress(InvalidMessage):
        found = waits.decode_wait(record, group="g")
        assert 1 <= len(found.request_id) <= 128
        if isinstance(found, waits.WaitRecord):
            assert 0 <= found.generation < 2**62
            assert 0 <= found.record.partition < 2**31 and 0 <= found.record.offset < 2**63
            assert -1 <= found.record.timestamp_ms < 2**63


@fuzzed
@given(RECORDS)
def test_a_letter_of_any_dialect(record: Record) -> None:
    letter = letter_of(record)
    assert json.dumps(letter_columns(letter, LetterState.OPEN))
    original = letter.failure.original
    assert original.partition is None or 0 <= original.partition < 2**31
    assert original.offset is None or 0 <= original.offset < 2**63
    assert {*without_own(letter.dialect, record.headers)} <= {*record.headers}
    for raw in (record.key, record.value):
        assert len(decoded(raw, limit=100).text) < 2000


@fuzzed
@given(TEXTS, st.binary(max_size=30))
@example(b"[" * DEEP, b"")
@example(b'{"topic": 5, "key": null, "value": null, "headers": []}', b"")
@example(b'{"topic": "t", "key": -2, "value": 6, "headers": []}', b"1234")
@example(b'{"topic": "t", "key": true, "value": null, "headers": []}', b"1")
@example(b'{"topic": "t", "key": null, "value": null, "headers": [[5, "00"]]}', b"")
@example(b'{"topic": "\\ud800", "key": null, "value": null, "headers": []}', b"")
def test_a_payload_in_redis(head: bytes, body: bytes) -> None:
    with suppress(ValueError):
        found = StoredPayload.decode(head + b"\n" + body)
        assert StoredPayload.decode(found.encode()) == found
        assert found.topic.encode()
        assert all(
            name.encode() is not None and isinstance(one, bytes) for name, one in found.headers
        )


FIELDS = [
    "status",
    "attempt",
    "generation",
    "code",
    "message",
    "result",
    "worker",
    "resend",
    "by",
    "due_at",
    "updated_at",
    "deadline_at",
    "partition",
    "offset",
    "topic",
    "voids",
]
STATES = st.sampled_from([b"RUNNING", b"SUCCEEDED", b"LOST", b"", b"\xff"])


@fuzzed
@given(
    st.dictionaries(
        st.sampled_from(FIELDS).map(str.encode) | st.binary(max_size=5), BYTES | TEXTS | STATES
    )
)
@example({b"status": b"SUCCEEDED", b"result": b"[" * DEEP})
def test_a_status_in_redis(found: dict[bytes, bytes]) -> None:
    with suppress(ValueError, NewerStatus):
        status_of("a", decode_hash(found), set())


FRAMES = st.builds(
    lambda head, tail: len(head).to_bytes(4, "big") + len(tail).to_bytes(4, "big") + head + tail,
    TEXTS,
    st.binary(max_size=20),
)


@fuzzed
@given(st.lists(FRAMES | st.binary(max_size=20), max_size=4), st.integers(1, 30))
@example([(DEEP).to_bytes(4, "big") + bytes(4) + b"[" * DEEP], DEEP)
@example([encode_frame({"finished": [[1, [], 0]]})], 9)
def test_frames_of_a_child(parts: list[bytes], step: int) -> None:
    sent = b"".join(parts)
    decoder = FrameDecoder(limit_bytes=2 * DEEP)
    with suppress(MalformedFrame):
        for begin in range(0, len(sent), step):
            for frame in decoder.feed(sent[begin : begin + step]):
                unpack_report(frame)


@fuzzed
@given(st.lists(TEXTS, max_size=4), st.none() | st.text(max_size=5))
@example([b"[" * DEEP], None)
@example([b'{"value": 1, "key": "\\ud800"}'], None)
def test_lines_of_a_file(lines: list[bytes], key: str | None) -> None:
    with suppress(BadLine):
        for one in read_submissions(io.BytesIO(b"\n".join(lines)), topic="t", key=key):
            if one is not None:
                with suppress(InvalidMessage):
                    prepare(one, default_topic=None, default_deadline_s=60.0, now_ms=0)


SECTIONS = st.sampled_from(
    [b"kafka", b"redis", b"journal", b"worker", b"client", b"audit", b"alerts"]
)
WORDS = st.sampled_from(
    [b"url", b"group", b"handlers", b"processes", b"topics", b"by_topic", b"lease_s"]
)
VALUES = st.sampled_from(
    [
        b'"redis://["',
        b'"sqlite:///x"',
        b"1",
        b"-1",
        b"1e999",
        b"nan",
        b'["a", 1]',
        b"{a = 1}",
        b'"\\ud800"',
        b"9" * 5000,
        b"1979-05-27",
        b'"http://[::1"',
    ]
)
TOML = (
    st.lists(
        st.builds(lambda a, b, c: b"[%s]\n%s = %s\n" % (a, b, c), SECTIONS, WORDS, VALUES),
        max_size=4,
    ).map(b"".join)
    | st.binary(max_size=60)
    | NESTED.map(lambda one: b"a = " + one)
)


@fuzzed
@given(TOML)
@example(b"a = " + b"[" * DEEP)
@example(b"[redis]\nurl = " + b"9" * 5000)
@example(b"a." * DEEP + b"a = 1")
def test_settings(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "onceward.toml"
        file.write_bytes(text)
        with suppress(SettingsError):
            load(file)
