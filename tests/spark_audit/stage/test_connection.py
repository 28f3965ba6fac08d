"""`[kafka]` in the words of Spark's Kafka client, and the ranges it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotAvailable, SecurityKind, SettingsError
from feedback.settings.settings import KafkaSection
from spark_audit.stage.stage_records import connection_options, reader_options
from tests.spark_audit.stage.samples import partition


def section(**given: Any) -> KafkaSection:
    """Return `[kafka]` with these settings."""
    return KafkaSection(bootstrap_servers="one:9092, two:9092", **given)


def test_without_security_only_the_brokers_and_the_protocol_are_named() -> None:
    assert connection_options(section()) == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_a_user_and_its_password_become_a_login_of_java(mechanism: str, module: str) -> None:
    options = connection_options(
        section(
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_plain_username="me",
            sasl_plain_password='p"a\\s;s',
        )
    )
    assert options["kafka.sasl.mechanism"] == mechanism
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="me" password="p\\"a\\\\s;s";'
    )


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_another_mechanism_is_refused_by_name(mechanism: str) -> None:
    login = {"sasl_mechanism": mechanism, "sasl_oauth_token_file": "token"}
    with pytest.raises(SettingsError, match="sasl_mechanism"):
        connection_options(section(security_protocol="SASL_SSL", **login))


def test_a_password_file_is_read_for_spark(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("of-the-file\n")
    options = connection_options(
        section(
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_plain_username="me",
            sasl_plain_password_file=str(tmp_path / "password"),
        )
    )
    assert 'password="of-the-file"' in options["kafka.sasl.jaas.config"]


def test_certificates_are_given_as_text_so_that_a_cluster_needs_no_files(tmp_path: Path) -> None:
    for name in ("ca", "mine", "key"):
        (tmp_path / name).write_text(f"-----{name}-----")
    options = connection_options(
        section(
            security_protocol="SSL",
            ssl_cafile=str(tmp_path / "ca"),
            ssl_certfile=str(tmp_path / "mine"),
            ssl_keyfile=str(tmp_path / "key"),
            ssl_password="secret",
            ssl_check_hostname=False,
        )
    )
    assert {name: value for name, value in options.items() if ".ssl." in name} == {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-----ca-----",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "-----mine-----",
        "kafka.ssl.keystore.key": "-----key-----",
        "kafka.ssl.key.password": "secret",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_the_certificate_of_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match=r"\[kafka\] ssl_cafile = .*No such file") as caught:
        connection_options(section(security_protocol="SSL", ssl_cafile=str(tmp_path / "none")))
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.FILE


@pytest.mark.parametrize("name", ["ssl_crlfile", "ssl_ciphers", "sasl_kerberos_name"])
def test_a_setting_that_spark_cannot_follow_is_refused_not_dropped(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        connection_options(section(**{name: "x"}))


def test_every_partition_is_read_by_explicit_offsets_and_empty_ranges_are_left_out() -> None:
    options = reader_options(
        section(),
        [
            partition("a", 0, start=5, end=9),
            partition("a", 1, start=4, end=4),
            partition("a", 12, start=2**40, end=2**40 + 1),
            partition("b", 0, start=0, end=0),
        ],
    )
    assert options is not None
    assert json.loads(options["assign"]) == {"a": [0, 12]}
    assert json.loads(options["startingOffsets"]) == {"a": {"0": 5, "12": 2**40}}
    assert json.loads(options["endingOffsets"]) == {"a": {"0": 9, "12": 2**40 + 1}}
    assert options["failOnDataLoss"] == "true"


def test_where_all_ranges_are_empty_there_is_nothing_to_read() -> None:
    assert reader_options(section(), [partition(start=3, end=3)]) is None
