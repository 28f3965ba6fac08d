"""Foreign bytes as a person sees them."""

import json

import pytest

from consumer.dlq.dates import iso, moment, moment_ms
from consumer.dlq.decoded import decoded, header_text, is_json, reindented
from feedback.console.printable import printable
from feedback.errors import SettingsError
from feedback.records.envelope import MAX_EPOCH_MS

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("raw", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b"5.0", "text", "5.0"),
        (b'{"a": 1.10, "a": [], "b": [1, {}]}', "JSON", None),
        (b"{not json}", "text", "{not json}"),
        (b"\xff\x00", "bytes", "00000000  ff 00                                            .."),
        ("Grüße\tdort\nhier".encode(), "text", "Grüße\tdort\nhier"),
    ],
)
def test_bytes_are_shown_as_what_they_are(raw: bytes | None, kind: str, text: str | None) -> None:
    found = decoded(raw, limit=1000)
    assert found.kind == kind
    if text is not None:
        assert found.text == text
    assert not found.cut


def test_json_is_laid_out_and_nothing_of_it_is_changed() -> None:
    text = r'{"a":1.10,"a":[1,{"é":"\u202e, [x]: \"{"}],"c":{},"d":[],"e":-1e400,"f":null}'
    shown = reindented(text, limit=10_000)
    assert shown.splitlines()[:4] == ["{", '  "a": 1.10,', '  "a": [', "    1,"]
    tokens = [line.strip() for line in shown.splitlines()]
    assert "".join(tokens).replace(": ", ":") == text.replace(": ", ":")
    assert json.loads(shown) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 900 + "]" * 900, '{"a": ' + "9" * 9000 + "}"]
)
def test_json_made_to_hurt_does_not(text: str) -> None:
    found = decoded(text.encode(), limit=1000)
    assert len(found.text) <= 1000
    assert len(reindented(text, limit=1000)) < 20_000


def test_json_that_is_none_is_not_laid_out() -> None:
    assert not is_json('{"a": }') and not is_json("5") and is_json(" [1]")


def test_what_is_too_long_is_cut() -> None:
    assert decoded(b"x" * 11, limit=10) == ("text", 11, "x" * 10, True)
    assert decoded(b"\xff" * 11, limit=10).cut
    assert decoded(b'{"a": "' + b"x" * 99 + b'"}', limit=10).cut


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202eexe.\u2066\u200b\x00"


def test_nothing_hostile_comes_through() -> None:
    for text in (
        decoded(HOSTILE.encode(), limit=1000).text,
        decoded(json.dumps([HOSTILE], ensure_ascii=False).encode(), limit=1000).text,
        header_text(HOSTILE.encode(), limit=1000),
        header_text("\x9b31m\u202e".encode(), limit=1000),
        printable(HOSTILE),
    ):
        assert text.isprintable() or text.replace("\n", "").isprintable(), ascii(text)


def test_a_binary_header_is_shown_in_hex_even_when_it_is_text_by_accident() -> None:
    assert header_text(bytes([0, 0, 0, 2]), limit=300) == "0x00000002"
    assert header_text(b"plain", limit=300) == "plain"
    assert header_text(b"a\nb", limit=300) == r"a\nb"
    assert header_text(b"x" * 301, limit=300) == "x" * 300 + "…"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW_MS - 90_000),
        ("15m", NOW_MS - 900_000),
        ("7d", NOW_MS - 604_800_000),
        ("999999999d", 0),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20.250+01:00", NOW_MS + 250),
    ],
)
def test_a_moment_is_so_long_ago_or_a_time(text: str, expected: int) -> None:
    assert moment_ms("since", text, now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "2023-11-14", "2023-11-14T22:13:20", "1960-01-01T00:00Z"),
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_a_moment_without_a_zone_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingsError, match="2026-01-31T09:00:00Z"):
        moment_ms("since", text, now_ms=NOW_MS)


@pytest.mark.parametrize("ms", [0, 1, 999, NOW_MS, NOW_MS + 7, NOW_MS + 999, MAX_EPOCH_MS])
def test_a_moment_is_read_as_it_was_written(ms: int) -> None:
    assert moment_ms("until", iso(ms), now_ms=0) == ms


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert moment(NOW_MS) == "2023-11-14 22:13:20Z"
    assert moment(2**63) == str(2**63)
    assert moment(None) == ""
