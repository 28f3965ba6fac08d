"""Secrets in files that somebody else renews: read again for each login, never kept in settings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from feedback.errors import NotAvailable, SecurityFault, SecurityKind

# A longer file is no password.
_MOST_BYTES = 65_536


class SecretTooLong(NotAvailable):
    """A file is longer than it may be."""


class SecretFile(NamedTuple):
    """A file with one secret.

    Args:
        server: its name in events.
        setting: the setting that names the file, in full.
        most_bytes: a longer file cannot be used.
    """

    server: str
    setting: str
    path: str
    most_bytes: int = _MOST_BYTES

    def read(self) -> str:
        """Return the secret, without the line's end.

        Raises:
            SecretTooLong: the file is longer than it may be.
            NotAvailable: it cannot be read, or is empty.
        """
        try:
            with Path(self.path).open("rb") as file:
                raw = file.read(self.most_bytes + 1)
        except (OSError, ValueError) as error:
            raise self._unusable(getattr(error, "strerror", None) or str(error)) from None
        if len(raw) > self.most_bytes:
            said = f"it is longer than {self.most_bytes:,} bytes, which is the most"
            raise self._unusable(said, SecretTooLong)
        try:
            secret = raw.decode().rstrip("\r\n")
        except ValueError:
            # A decoder's error would quote the secret.
            raise self._unusable("it is no text") from None
        if not secret:
            raise self._unusable("it is empty")
        return secret

    def _unusable(self, why: str, kind: type[NotAvailable] = NotAvailable) -> NotAvailable:
        said = f"a file of the settings cannot be used: {self.setting} = {self.path} ({why})"
        return kind(said).because(SecurityFault(SecurityKind.FILE, self.server, said))


class KafkaSecrets(NamedTuple):
    """The files for the logins to Kafka; None for one that is not named."""

    password: SecretFile | None
    token: SecretFile | None
