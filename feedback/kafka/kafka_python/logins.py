"""Reads password or token from its file again for each login to a broker.

kafka-python takes a password once, when a client is made; a renewed one would need a restart.
Importing this module mends that: a login, also the one that a broker asks for again on an open
connection, uses the file as it is then.
"""

from __future__ import annotations

from typing import Any

from kafka.net.connection import KafkaConnection
from kafka.net.sasl.oauth import AbstractTokenProvider

from feedback.errors import NotAvailable
from feedback.kafka.kafka_python.faults import Faulty
from feedback.settings.secret_files import KafkaSecrets

# Where kafka-python carries an object of the caller's to each connection.
CARRIER = "sasl_oauth_token_provider"

_authenticate = KafkaConnection._sasl_authenticate


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    """A token that was read a moment ago."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        """Return the token."""
        return self._token


async def _authenticate_by_files(self: Any, timeout_at: float | None = None) -> None:
    secrets = self.config[CARRIER]
    if not isinstance(secrets, KafkaSecrets):
        await _authenticate(self, timeout_at)
        return
    given = self.config
    try:
        self.config = {**given, **_read(secrets)}
        await _authenticate(self, timeout_at)
    except NotAvailable as error:
        if error.fault is None:
            raise
        raise Faulty(error.fault) from error
    finally:
        self.config = given


def _read(secrets: KafkaSecrets) -> dict[str, object]:
    read: dict[str, object] = {}
    if secrets.password is not None:
        read["sasl_plain_password"] = secrets.password.read()
    if secrets.token is not None:
        read[CARRIER] = _Token(secrets.token.read())
    return read


KafkaConnection._sasl_authenticate = _authenticate_by_files
