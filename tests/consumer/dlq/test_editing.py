"""A value as a form holds it: nothing is lost on the way there and back, or it is not edited."""

from __future__ import annotations

import json

import pytest

from consumer.dlq.editing import (
    LONGEST,
    MOST_LINES,
    NotEditable,
    changes,
    editable,
    edited,
    value_words,
)

TEXTS = (
    b'{"a":1}',
    b'{"a":1,"a":2,"big":12345678901234567890123,"f":1.2300,"e":1e400}',
    b'{"s":"a \\\\ \\" b","n":null,"t":"\\u00e9","l":[[],{}]}',
    b"[" * 90 + b"]" * 90,
    b"no json\n\twith a tab\n",
    b"\n\nbegins with lines",
    b" blanks ",
    b"5",
    b"",
    "Zo\u00eb".encode(),
)


def _from_a_browser(text: str) -> str:
    """Return a text as a form gives it back: browsers have line ends of their own."""
    sent = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return sent.replace("\r\n", "\n")


@pytest.mark.parametrize("value", TEXTS)
def test_a_value_that_nobody_changes_stays(value: bytes) -> None:
    assert edited(_from_a_browser(editable(value))) == value


@pytest.mark.parametrize(
    "value",
    [
        b' {\r\n\t"a": "b" ,\r\n"c":[ 1 ]}\r\n',
        '{"to":"\u202e\u00a0\x7f\U000e0001","\u200b":1}'.encode(),
    ],
)
def test_json_says_the_same_and_shows_all_of_it(value: bytes) -> None:
    text = editable(value)
    assert all(one.isprintable() or one == "\n" for one in text)
    assert json.loads(edited(_from_a_browser(text))) == json.loads(value)
    assert editable(edited(text)) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (b"\xff\x00", "no text"),
        (b"\x00\x00\x00\x00\x01abc", "does not keep"),
        (b"a\r\nb", "does not keep"),
        ("pay \u202e7".encode(), "does not keep"),
        (b"\x1b[2J", "does not keep"),
        (b"x" * (LONGEST + 1), "too long"),
        (b"%" * (LONGEST // 3 + 1), "too long"),
        (b"[" + b"1," * (LONGEST // 4) + b"1]", "too long"),
    ],
)
def test_what_a_form_does_not_keep_is_not_edited(value: bytes | None, said: str) -> None:
    with pytest.raises(NotEditable, match=said):
        editable(value)


@pytest.mark.parametrize("text", ["a\rb", "\u202e", "x" * (LONGEST + 1)])
def test_what_nobody_sees_is_not_sent(text: str) -> None:
    with pytest.raises(NotEditable):
        edited(text)


def test_the_layout_of_a_person_is_not_sent() -> None:
    assert edited('{\n  "a" : "b c",\n "d": [1, 2]}\n') == b'{"a":"b c","d":[1,2]}'
    # It is none: it is sent as it stands, or refused by the letter that it replaces.
    assert edited('{"a": }') == b'{"a": }'


def test_what_differs_is_named() -> None:
    assert changes("a", "a") == []
    long = "\n".join(map(str, range(MOST_LINES + 1)))
    assert changes(long, long) == []
    assert changes(long, long.replace("7\n8\n", "seven\n8\n", 1)) == ["-7", "+seven"]
    assert changes(long, long.replace("7\n8\n", "7\n7\n8\n", 1)) == ["+7"]
    assert changes(long, long.replace("7\n8\n", "8\n", 1)) == ["-7"]
    assert changes(long, "one") == [*(f"-{one}" for one in range(MOST_LINES + 1)), "+one"]


def test_a_word_of_a_command_line_is_whole() -> None:
    assert value_words('{"to":"Zo\u00eb"}'.encode()) == ("--value", '{"to":"Zo\u00eb"}')
    for value in (b"a\tb", b"x" * 200_000):
        assert value_words(value) == ("--value-file", "value")
