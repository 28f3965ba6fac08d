"""Reads the password of Redis from its file again for each connection."""

from __future__ import annotations

from typing import Any

from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError

from feedback.errors import NotAvailable
from feedback.settings.secret_files import SecretFile


class _FromFile(CredentialProvider):
    def __init__(self, user: str | None, secret: SecretFile) -> None:
        self._user = user
        self._secret = secret

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = self._secret.read()
        except NotAvailable as error:
            refused = AuthenticationError("no password")
            refused.onceward_fault = error.fault  # type: ignore[attr-defined]
            raise refused from error
        return (password,) if self._user is None else (self._user, password)


def log_in_by_file(pool: Any, secret: SecretFile | None) -> None:
    """Let a pool's connections log in with the password of a file, and the user of the URL.

    Args:
        pool: redis-py's, for threads or asyncio, before its first connection.
        secret: None where the URL has the password.
    """
    if secret is None:
        return
    given = pool.connection_kwargs
    given.pop("password", None)
    given["credential_provider"] = _FromFile(given.pop("username", None), secret)
