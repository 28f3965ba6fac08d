"""Our settings as librdkafka's."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from feedback.errors import SettingsError
from feedback.kafka.confluent.connection import connection
from feedback.kafka.reader import RecordReader
from feedback.settings.settings import KafkaSection

LOGIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "u",
    "sasl_plain_password": "secret",
}


def test_every_setting_of_a_connection_is_mapped_or_refused() -> None:
    given = KafkaSection.model_validate(
        {**LOGIN, "ssl_check_hostname": False, "ssl_ciphers": "HIGH", "client_id": "c"}
    )
    found = connection(given)
    assert found["sasl.password"] == "secret"
    assert found["sasl.mechanism"] == "SCRAM-SHA-512"
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    assert found["ssl.cipher.suites"] == "HIGH"
    # librdkafka itself refuses a property that it has not.
    Consumer({**found, "group.id": "g"}).close()


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"sasl_plain_password": None, "sasl_plain_password_file": "/f"}, "sasl_plain_password_f"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": "/f"}, "sasl_oauth_token_file"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism = GSSAPI"),
        ({"sasl_kerberos_name": "kafka/host"}, "sasl_kerberos_name"),
    ],
)
def test_what_librdkafka_has_not_is_refused_by_name(named: dict[str, str], said: str) -> None:
    settings = KafkaSection.model_validate({**LOGIN, **named, "client": "confluent"})
    with pytest.raises(SettingsError, match=said) as caught:
        connection(settings)
    assert "secret" not in str(caught.value)
    # Also where kafka-python would know it.
    with RecordReader(settings) as reader, pytest.raises(SettingsError, match=said):
        reader.read("t", 0, 0, timeout_s=1.0)
