"""The payload kept for a resend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.records.stored_payload import StoredPayload

parts = st.none() | st.binary(max_size=64)
headers = st.lists(st.tuples(st.text(max_size=10), st.binary(max_size=10)), max_size=4).map(tuple)


@given(st.builds(StoredPayload, st.text(max_size=20), parts, parts, headers))
def test_a_payload_comes_back_byte_by_byte(payload: StoredPayload) -> None:
    assert StoredPayload.decode(payload.encode()) == payload


def test_a_large_payload_costs_no_more_room_than_it_has() -> None:
    payload = StoredPayload("payments", b"k" * 100, b"\xff" * 1_000_000)
    assert len(payload.encode()) < 1_000_100 + 200


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"not json\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b'{"topic": "t", "key": "1", "value": 2, "headers": []}\nabc',
        b'{"topic": "t", "key": 1, "value": 1, "headers": [["h"]]}\nab',
        b'{"topic": "t", "key": 1, "value": 1, "headers": [["h", "zz"]]}\nab',
        StoredPayload("t", b"key", b"value").encode()[:-1],
        StoredPayload("t", b"key", b"value").encode() + b"x",
    ],
)
def test_what_was_not_kept_by_us_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        StoredPayload.decode(raw)
