"""JSONL into submissions."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_client.commands.jsonl import BadLine, lines_and_pauses, read_submissions
from producer_client.submission import Submission

SECRET = "4111111111111111"


def _read(*lines: bytes, **defaults: Any) -> list[Submission]:
    return [one for one in read_submissions(lines, **defaults) if one is not None]


def test_a_line_says_all_that_a_send_takes() -> None:
    line = {
        "value": {"amount": 5},
        "key": "k",
        "topic": "t",
        "request_id": "r1",
        "deadline_s": 7,
        "headers": {"traceparent": "00-1"},
    }
    assert _read(json.dumps(line).encode()) == [
        Submission(b'{"amount":5}', "k", "t", "r1", (("traceparent", b"00-1"),), 7.0)
    ]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"value":null,"key":"k"}', None),
        (b'{"value":""}', b'""'),
        (b'{"value":"text"}', b'"text"'),
        (b'{"value_base64":"AP8="}', b"\x00\xff"),
        (b'{"value_base64":""}', b""),
        (b'{"value_base64":null}', None),
        (b'{"amount": 5, "to": [1, 2]}', b'{"amount":5,"to":[1,2]}'),
        (b"[1, 2]", b"[1,2]"),
        (b'"text"', b'"text"'),
        (b"null", b"null"),
        (b"0", b"0"),
    ],
)
def test_any_json_is_a_value_or_names_one(line: bytes, value: bytes | None) -> None:
    assert [one.value for one in _read(line)] == [value]


def test_headers_may_be_pairs_so_that_a_name_can_repeat() -> None:
    (found,) = _read(b'{"value":1,"headers":[["h","a"],["h","b"]]}')
    assert found.headers == (("h", b"a"), ("h", b"b"))


def test_what_a_line_does_not_name_comes_from_the_defaults() -> None:
    lines = (b"{}", b'{"value":1}', b'{"value":1,"key":"l","topic":"u","deadline_s":1}')
    found = _read(*lines, topic="t", key="k", deadline_s=9)
    assert [(one.topic, one.key, one.deadline_s) for one in found] == [
        ("t", "k", 9),
        ("t", "k", 9),
        ("u", "l", 1),
    ]


def test_an_empty_key_of_a_line_is_not_the_default_key() -> None:
    assert _read(b'{"value":1,"key":""}', key="k")[0].key == ""


def test_empty_lines_are_passed_over_and_counted() -> None:
    with pytest.raises(BadLine, match="line 4:"):
        _read(b"1\n", b"\n", b"  \r\n", b"bad\n")


def test_a_byte_order_mark_and_line_ends_of_other_systems_are_fine() -> None:
    assert [one.value for one in _read(b"\xef\xbb\xbf1\r\n", b"2\r\n", b"3")] == [
        b"1",
        b"2",
        b"3",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{SECRET} {SECRET}", "Extra data"),
        (f'{{"card": "{SECRET}"', "Expecting"),
        (f"'{SECRET}'", "Expecting value"),
        (f'{{"value": 1, "{SECRET}": 2}}', "names beside"),
        (f'{{"value": 1, "key": {SECRET}}}', "key must be text"),
        (f'{{"value": 1, "topic": ["{SECRET}"]}}', "topic must be text"),
        (f'{{"value": 1, "request_id": {SECRET}}}', "request_id must be text"),
        (f'{{"value": 1, "deadline_s": "{SECRET}"}}', "deadline_s must be a number"),
        ('{"value": 1, "deadline_s": true}', "deadline_s must be a number"),
        pytest.param(
            f'{{"value": 1, "deadline_s": {"9" * 400}}}', "deadline_s is too large", id="large"
        ),
        (f'{{"value": 1, "headers": "{SECRET}"}}', "headers must be"),
        (f'{{"value": 1, "headers": {{"h": {SECRET}}}}}', "headers must be"),
        (f'{{"value": 1, "headers": [["{SECRET}"]]}}', "headers must be"),
        ('{"value": 1, "headers": null}', "headers must be"),
        ('{"value": 1, "headers": 5}', "headers must be"),
        ('{"value": 1, "headers": {"h": "\\ud800"}}', "headers must be"),
        (f'{{"value_base64": "{SECRET}!"}}', "not base64"),
        (f'{{"value_base64": {SECRET}}}', "value_base64 must be text"),
        (f'{{"value_base64": "é{SECRET}"}}', "not base64"),
        ('{"value": 1, "value_base64": ""}', "exclude each other"),
        ('{"value": NaN}', "a number that JSON cannot hold"),
        ("-Infinity", "a number that JSON cannot hold"),
        ("1e999", "a number that JSON cannot hold"),
        pytest.param("[" * 100_000, "nested too deep", id="deep"),
        pytest.param("9" * 5_000, "", id="long"),
    ],
)
def test_a_line_that_is_no_request_is_named_by_its_number_without_its_content(
    line: str, reason: str
) -> None:
    with pytest.raises(BadLine, match=f"^line 2: .*{reason}") as caught:
        _read(b"1\n", line.encode() + b"\n")
    assert SECRET not in str(caught.value)
    assert "999" not in str(caught.value)


def test_a_line_that_is_not_utf8_is_named_by_its_number() -> None:
    with pytest.raises(BadLine, match=r"^line 1: not UTF-8\n"):
        _read(b'"\xff\xfe"\n')


def test_lines_before_a_bad_one_are_given_first() -> None:
    lines = read_submissions([b"1", b"2", b"bad"])
    assert [next(lines), next(lines)] == [Submission(b"1"), Submission(b"2")]
    with pytest.raises(BadLine, match="line 3"):
        next(lines)


@given(st.binary(max_size=40))
def test_whatever_a_line_holds_it_is_a_submission_or_a_bad_line(line: bytes) -> None:
    try:
        found = _read(line)
    except BadLine as error:
        assert str(error).startswith("line 1: ")
    else:
        assert len(found) == bool(line.strip())


def test_a_pause_of_whoever_writes_the_lines_is_told_once_between_whole_lines() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as stream, os.fdopen(write, "wb", buffering=0) as into:
        lines = lines_and_pauses(stream)
        into.write(b"1\n2\n3")
        assert [next(lines) for _ in range(3)] == [b"1", b"2", None]
        into.write(b"3\n\n")
        assert [next(lines) for _ in range(3)] == [b"33", b"", None]
        into.write(b"last")
        into.close()
        assert list(lines) == [b"last"]


def test_pauses_come_through_as_pauses_and_are_not_counted_as_lines() -> None:
    lines = read_submissions([None, b"1", None, b"bad"])
    assert [next(lines) for _ in range(3)] == [None, Submission(b"1"), None]
    with pytest.raises(BadLine, match="line 2"):
        next(lines)


def test_a_file_or_bytes_in_memory_never_pause(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x" * 200_000 + b"\nsecond")
    with file.open("rb") as stream:
        assert list(lines_and_pauses(stream)) == [b"x" * 200_000, b"second"]
    assert list(lines_and_pauses(io.BytesIO(b"1\n2"))) == [b"1\n", b"2"]
