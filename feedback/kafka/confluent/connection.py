"""Our settings as librdkafka's; those that it has not are refused by name. Pure."""

from __future__ import annotations

import logging
from typing import Any

from feedback.errors import SettingsError
from feedback.settings.sections import METADATA_MAX_AGE_MS
from feedback.settings.settings import KafkaSection

# librdkafka's log: its own words, never a payload.
_LOGGER = logging.getLogger("librdkafka")
# Of its log, what is critical: lost connections are told as errors.
_LOG_LEVEL = 2
_NAMES = {
    "client_id": "client.id",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}
# Files are read once, and the wheels of PyPI are built without Kerberos.
_UNKNOWN = (
    "sasl_plain_password_file",
    "sasl_oauth_token_file",
    "sasl_kerberos_name",
    "sasl_kerberos_domain_name",
)
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def connection(settings: KafkaSection) -> dict[str, Any]:
    """Return the properties that every client of librdkafka takes.

    Raises:
        SettingsError: a setting is one that librdkafka has not.
    """
    require_known(settings)
    given = settings.model_dump(exclude_none=True, include={*_NAMES})
    named = {_NAMES[name]: value for name, value in given.items()}
    for name, value in named.items():
        if hasattr(value, "get_secret_value"):
            named[name] = value.get_secret_value()
    checked = "https" if settings.ssl_check_hostname else "none"
    return {
        **named,
        "bootstrap.servers": settings.bootstrap_servers,
        "ssl.endpoint.identification.algorithm": checked,
        "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
        "metadata.max.age.ms": METADATA_MAX_AGE_MS,
        "reconnect.backoff.max.ms": 1000,
        "logger": _LOGGER,
        "log_level": _LOG_LEVEL,
    }


def require_known(settings: KafkaSection) -> None:
    """Return if librdkafka has all settings that are given.

    Raises:
        SettingsError: it has not.
    """
    unknown = unknown_settings(settings)
    if unknown:
        raise SettingsError(
            f"[kafka] client = confluent does not know {', '.join(unknown)}: "
            'leave it out, or set client = "kafka-python"'
        )


def unknown_settings(settings: KafkaSection) -> tuple[str, ...]:
    """Return the settings that librdkafka has not, each as a person wrote it."""
    found = [name for name in _UNKNOWN if getattr(settings, name) is not None]
    mechanism = settings.sasl_mechanism
    if mechanism is not None and mechanism not in _MECHANISMS:
        found.append(f"sasl_mechanism = {mechanism}")
    return tuple(found)
