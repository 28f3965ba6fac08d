"""Ids of topics, which are the same text with either library."""

from __future__ import annotations

import base64
import uuid

import pytest

from feedback.kafka.confluent.administrator import _topic_id

ONE = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(("given", "text"), [(ONE, str(ONE)), (uuid.UUID(int=0), "")])
def test_an_id_is_a_uuid_and_none_where_the_broker_has_none(given: uuid.UUID, text: str) -> None:
    of_librdkafka = base64.urlsafe_b64encode(given.bytes).decode().rstrip("=")
    assert _topic_id(of_librdkafka) == text
