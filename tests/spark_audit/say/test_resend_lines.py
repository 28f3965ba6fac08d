"""`resend.jsonl`: taken by `onceward-client send` as it is."""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_client.commands.jsonl import read_submissions
from producer_client.submission import prepare
from spark_audit.findings import FindingRow
from spark_audit.say.resend_lines import (
    PAYLOADS_AT_ONCE,
    LostRecord,
    NotText,
    Payload,
    ResendLines,
    resend_line,
    write_resend,
)
from tests.spark_audit.say.samples import found_request

SECRET = b"4111111111111111"


def test_a_line_says_the_same_request_to_the_client() -> None:
    headers = (("traceparent", b"00-1"), ("h", b"a"), ("h", "\u00e9".encode()))
    line = resend_line("r1", "payments", (b"k", b"\x00\xff", headers))
    (found,) = read_submissions([line.encode()], topic="other", key="default")
    assert found is not None
    assert (found.request_id, found.topic, found.key) == ("r1", "payments", "k")
    assert (found.value, found.headers) == (b"\x00\xff", headers)


@given(
    st.one_of(st.none(), st.text().map(str.encode)),
    st.one_of(st.none(), st.binary()),
    st.lists(st.tuples(st.text(), st.text().map(str.encode)), max_size=3).map(tuple),
)
def test_every_payload_that_a_line_takes_arrives_as_it_was(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...]
) -> None:
    if key is None and value is None:
        return
    line = resend_line("r1", "payments", (key, value, headers))
    assert line.count("\n") == 1
    (submission,) = read_submissions([line.encode()])
    assert submission is not None
    sent = prepare(submission, default_topic=None, default_deadline_s=1, now_ms=0).payload
    kept = tuple(one for one in headers if not one[0].startswith("onceward-"))
    assert (sent.key, sent.value, sent.headers) == (key, value, kept)


def test_our_own_headers_of_the_first_attempt_are_left_out() -> None:
    headers = (("onceward-request-id", b"r1"), ("onceward-deadline", b"1"), ("h", b"a"))
    (found,) = read_submissions([resend_line("r1", "t", (b"k", b"v", headers)).encode()])
    assert found is not None
    assert found.headers == (("h", b"a"),)


@pytest.mark.parametrize(
    "payload",
    [
        (b"\xff", b"v", ()),
        (b"k", b"v", (("h", b"\xff"),)),
        (b"k", b"v", (("h", None),)),
        (None, None, ()),
    ],
)
def test_what_a_line_cannot_say_exactly_is_not_said(payload: Payload) -> None:
    with pytest.raises(NotText):
        resend_line("r1", "t", payload)


def test_only_requests_with_a_payload_get_a_line(tmp_path: Path) -> None:
    asked: list[LostRecord] = []

    def read(lost: Sequence[LostRecord]) -> list[Payload | None]:
        asked.extend(lost)
        known = {"r1": (b"k", SECRET, ()), "r2": (b"\xff", b"v", ())}
        return [known.get(one.request_id) for one in lost]

    lost: list[FindingRow] = [found_request(f"r{n}", offset=n) for n in (1, 2, 3)]
    lost.append(found_request("r4", topic=None, partition=None, offset=None))
    path = tmp_path / "resend.jsonl"
    lost.append(found_request("r5"))
    lines_of = write_resend(lost, read, path, begun=lambda names: [one == "r5" for one in names])
    assert lines_of == ResendLines(ready=1, payload_gone=2, begun=1, not_text=1)
    assert asked == [LostRecord(f"r{n}", "payments", 0, n, "ab" * 32) for n in (1, 2, 3)]
    lines = path.read_bytes().splitlines()
    assert [one.value for one in read_submissions(lines) if one] == [SECRET]


def test_many_are_asked_for_together_and_stand_in_their_order(tmp_path: Path) -> None:
    trips: list[int] = []

    def read(lost: Sequence[LostRecord]) -> list[Payload | None]:
        trips.append(len(lost))
        return [(None, one.request_id.encode(), ()) for one in lost]

    lost = [found_request(f"r{n}", offset=n) for n in range(PAYLOADS_AT_ONCE + 1)]
    path = tmp_path / "resend.jsonl"
    lines_of = write_resend(lost, read, path, begun=lambda names: [False] * len(names))
    assert (lines_of.ready, trips) == (len(lost), [PAYLOADS_AT_ONCE, 1])
    found = read_submissions(path.read_bytes().splitlines())
    assert [one.value for one in found if one] == [row.request_id.encode() for row in lost]


def test_nobody_else_may_read_the_payloads(tmp_path: Path) -> None:
    path = tmp_path / "resend.jsonl"
    write_resend([], lambda lost: [], path, begun=lambda names: [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
