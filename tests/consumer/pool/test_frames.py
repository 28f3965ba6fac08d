"""Frames and reports survive any cutting of the stream, and refuse what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool import Job, Outcome
from consumer.pool.frames import Frame, FrameDecoder, MalformedFrame, encode_frame
from consumer.pool.job import PoolSettings
from consumer.pool.outcome import CLASS_LIMIT, STACK_LIMIT_BYTES, RaisedError
from consumer.pool.wire import (
    pack_jobs,
    pack_report,
    report_limit_bytes,
    unpack_jobs,
    unpack_report,
)
from feedback.status import State

_scalars = st.none() | st.booleans() | st.integers() | st.text()
_headers = st.dictionaries(st.text(), _scalars | st.lists(_scalars), max_size=4)
_frames = st.lists(st.tuples(_headers, st.binary(max_size=200)), max_size=6)
_bytes = st.none() | st.binary(max_size=40)
_numbers = st.integers(min_value=0, max_value=2**63 - 1)
_jobs = st.builds(
    Job,
    request_id=st.text(min_size=1),
    generation=_numbers,
    topic=st.text(),
    partition=_numbers,
    offset=_numbers,
    timestamp=_numbers,
    key=_bytes,
    value=_bytes,
    headers=st.lists(st.tuples(st.text(), _bytes), max_size=4).map(tuple),
    attempt=_numbers,
    deadline_at=_numbers,
    voids=_numbers,
    asks=st.booleans(),
    collapses=st.booleans(),
)
_texts = st.none() | st.text(min_size=1, max_size=300)
_outcomes = st.builds(
    Outcome,
    state=st.sampled_from([State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.SKIPPED]),
    code=_texts,
    message=_texts,
    result=st.none() | st.text(st.characters(max_codepoint=127), max_size=50),
    resend=st.booleans(),
    committed=st.booleans(),
    stale=st.booleans(),
    voided=st.booleans(),
    raised=st.none() | st.builds(RaisedError, st.text(max_size=200), st.text(max_size=300)),
)


@given(_frames, st.data())
def test_any_split_of_the_stream_decodes_to_the_same_frames(
    frames: list[Frame], data: st.DataObject
) -> None:
    stream = b"".join(encode_frame(header, tail) for header, tail in frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    decoder = FrameDecoder()
    decoded: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += decoder.feed(stream[start:end])
    assert decoded == frames


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_malformed(stream: bytes) -> None:
    try:
        for frame in FrameDecoder(limit_bytes=1000).feed(stream):
            unpack_report(frame)
    except MalformedFrame as error:
        assert str(error)


@given(_headers, st.binary(max_size=20))
def test_any_header_is_a_report_or_malformed(header: dict[str, object], tail: bytes) -> None:
    names = ["started", "asked", "finished", "failed", "ready"]
    likely = dict(zip(names, header.values(), strict=False))
    try:
        unpack_report((likely, tail))
    except MalformedFrame as error:
        assert str(error)


@given(st.lists(st.tuples(_numbers, _jobs), max_size=5))
def test_jobs_arrive_as_they_were_given(jobs: list[tuple[int, Job]]) -> None:
    (frame,) = FrameDecoder().feed(pack_jobs(jobs))
    assert unpack_jobs(frame) == jobs


@given(
    st.lists(_numbers, max_size=4),
    st.lists(_numbers, max_size=4),
    st.lists(st.tuples(_numbers, _outcomes), max_size=4),
)
def test_reports_arrive_as_they_were_given(
    started: list[int], asked: list[int], finished: list[tuple[int, Outcome]]
) -> None:
    (frame,) = FrameDecoder().feed(pack_report(started=started, asked=asked, finished=finished))
    report = unpack_report(frame)
    assert (report.started, report.asked, report.finished) == (started, asked, finished)


@pytest.mark.parametrize("raised", [["E"], ["E", 5], [5, "s"], ["E", "s", "t"]])
def test_a_stack_that_is_none_is_malformed(raised: list[object]) -> None:
    row = [1, "FAILED", -1, None, None, False, False, False, False, *raised]
    with pytest.raises(MalformedFrame):
        unpack_report(({"finished": [row]}, b""))


def test_the_longest_stack_fits_into_a_report_whatever_its_characters_are() -> None:
    settings = PoolSettings(handlers=(), group="g", processes=1, max_result_bytes=0)
    worst = RaisedError("E" * CLASS_LIMIT, "\x1f" * STACK_LIMIT_BYTES)
    finished = [(1, Outcome(State.FAILED, "C", "m" * 500, raised=worst))]
    limited = FrameDecoder(limit_bytes=report_limit_bytes(settings))
    (frame,) = limited.feed(pack_report(finished=finished))
    assert unpack_report(frame).finished == finished


def test_a_frame_longer_than_the_limit_is_refused_before_it_has_come() -> None:
    with pytest.raises(MalformedFrame, match="more than 100"):
        list(FrameDecoder(limit_bytes=100).feed(encode_frame({}, b"x" * 200)[:8]))


def test_a_header_nested_without_end_is_malformed() -> None:
    text = b"[" * 200_000
    with pytest.raises(MalformedFrame):
        list(FrameDecoder().feed(len(text).to_bytes(4, "big") + b"\0\0\0\0" + text))


def test_frames_before_a_malformed_one_count() -> None:
    frames = FrameDecoder().feed(encode_frame({"started": [1]}) + b"\0\0\0\1\0\0\0\0{")
    assert next(frames) == ({"started": [1]}, b"")
    with pytest.raises(MalformedFrame):
        next(frames)
