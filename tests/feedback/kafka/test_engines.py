"""Which library the settings name."""

from __future__ import annotations

from typing import Any

import pytest

from feedback.kafka import engines
from feedback.kafka.engines import engine_of
from feedback.settings.settings import KafkaSection


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "confluent"),
        ({"client": "kafka-python"}, "kafka-python"),
        ({"sasl_plain_password_file": "/f"}, "kafka-python"),
        ({"sasl_oauth_token_file": "/f", "sasl_mechanism": "OAUTHBEARER"}, "kafka-python"),
        ({"sasl_mechanism": "GSSAPI"}, "kafka-python"),
    ],
)
def test_a_preferred_library_is_chosen_where_it_has_all_settings(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], name: str
) -> None:
    monkeypatch.setattr(engines, "PREFERRED", "confluent")
    login: dict[str, Any] = {}
    if given:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        login |= {"sasl_plain_username": "u", "sasl_plain_password": "p"}
    settings = KafkaSection.model_construct(**(login | given))
    assert engine_of(settings).name == name


def test_one_that_is_not_installed_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PREFERRED", "confluent")
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    assert engine_of(KafkaSection()).name == "kafka-python"


def test_kafka_python_is_preferred_now() -> None:
    assert engine_of(KafkaSection()).name == "kafka-python"
