"""A value of a JSON payload, set anew by its path, or whole."""

from __future__ import annotations

import pytest

from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.redrive_plan import (
    CannotBeSet,
    FieldValue,
    RedrivePlan,
    WholeValue,
    json_fault,
)
from feedback.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("amount=5", b'{"amount": "five", "to": 1}', b'{"amount":5,"to":1}'),
        ("card.number=7", b'{"card": {"number": 1}}', b'{"card":{"number":7}}'),
        ("card.holder=Zo\u00eb", b'{"card": {}}', '{"card":{"holder":"Zo\u00eb"}}'.encode()),
        ("/a~1b/m~0n=true", b'{"a/b": {"m~n": 0}}', b'{"a/b":{"m~n":true}}'),
        ("items.1.price=10.10", b'{"items": [0, {"price": 1}]}', b'{"items":[0,{"price":10.10}]}'),
        ("0=null", b"[1, 2]", b"[null,2]"),
        ('a={"b": [1]}', b"{}", b'{"a":{"b":[1]}}'),
        ('a="5"', b"{}", b'{"a":"5"}'),
        ("a=", b"{}", b'{"a":""}'),
        ("a=b=c", b"{}", b'{"a":"b=c"}'),
    ],
)
def test_a_value_is_set(text: str, before: bytes, after: bytes) -> None:
    setting = FieldValue.parse(text)
    assert setting.applied(before) == after
    assert FieldValue.parse(setting.text) == setting


def test_all_else_stays_as_it_was_written() -> None:
    before = b'{"big":12345678901234567890123,"f":1.2300,"e":1e400,"t":"\\u00e9","n":null,"a":0}'
    after = FieldValue.parse("a=1").applied(before)
    assert after == before.replace(b'"a":0', b'"a":1').replace(b"\\u00e9", "é".encode())


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("a.b=1", b'{"a": 5}'),
        ("a.b=1", b"{}"),
        ("2=1", b"[1, 2]"),
        ("-1=1", b"[1, 2]"),
        ("01=1", b"[1, 2]"),
        ("a=1", b"no json"),
        ("a=1", b'{"x": NaN}'),
        ("a=1", b"\xff\xfe"),
        ("a=1", b""),
        ("a=1", None),
        ("a=1", b"5"),
        ("a=1", b"[" * 100_000),
    ],
)
def test_what_has_no_such_place_is_left(text: str, payload: bytes | None) -> None:
    with pytest.raises(CannotBeSet):
        FieldValue.parse(text).applied(payload)


@pytest.mark.parametrize("text", ["", "a", "=5", "/=5", ".=5"])
def test_a_setting_without_path_or_value_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        FieldValue.parse(text)


@pytest.mark.parametrize(
    ("before", "value"),
    [
        (b'{"a": 1}', b'{"a": 2}'),
        (b'{"a": 1}', b"[]"),
        (b'{"a": 1}', b"5"),
        (b"no json", b"none either"),
        (b"5", b"five"),
        (b"\xff\xfe", b"\x00\x01"),
        ('{"a": 1}'.encode("utf-16"), '{"a": 2}'.encode("utf-16")),
        (None, b""),
    ],
)
def test_a_whole_value_is_sent_as_it_was_given(before: bytes | None, value: bytes) -> None:
    assert WholeValue(value).applied(before) == value


@pytest.mark.parametrize("value", [b'{"a": }', b"", b"\xff", b'{"a": NaN}', b"[" * 100_000, None])
def test_json_becomes_nothing_else_by_a_slip(value: bytes | None) -> None:
    with pytest.raises(CannotBeSet):
        WholeValue(value).applied(b'{"a": 1}')


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_the_encoding_of_an_editor_is_a_slip_as_well(encoding: str) -> None:
    value = '{"a": 2}'.encode(encoding)
    assert json_fault(value)
    with pytest.raises(CannotBeSet):
        WholeValue(value).applied(b'{"a": 1}')


def test_json_behind_a_byte_order_mark_becomes_json() -> None:
    marked = '{"a": 1}'.encode("utf-8-sig")
    assert WholeValue(b'{"a": 2}').applied(marked) == b'{"a": 2}'
    with pytest.raises(CannotBeSet):
        WholeValue(b"a slip").applied(marked)


@pytest.mark.parametrize("value", [b'{"a": 1}', b"\xff\x00", b""])
def test_the_journal_keeps_a_whole_value_until_the_redrive_is_done(value: bytes) -> None:
    plan = RedrivePlan(LetterFilter(ids=frozenset({"a"})), setting=WholeValue(value))
    assert RedrivePlan.from_json(plan.to_json()) == plan
    text = plan.forgotten()
    assert text is not None
    done = RedrivePlan.from_json(text)
    assert (done.setting, done.filter) == (WholeValue(None), plan.filter)
    assert RedrivePlan(LetterFilter(), setting=FieldValue.parse("a=1")).forgotten() is None


def test_a_whole_value_is_in_no_log() -> None:
    assert "4111" not in repr(RedrivePlan(LetterFilter(), setting=WholeValue(b'{"card":"4111"}')))
