"""Secrets in files that somebody else renews: read again for each login, never kept in settings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from feedback.errors import NotAvailable, SecurityFault, SecurityKind

# A file of a megabyte is no password.
_MOST_BYTES = 65_536


class SecretFile(NamedTuple):
    """A file with one secret.

    Args:
        server: its name in events.
        setting: the setting that names the file, in full.
    """

    server: str
    setting: str
    path: str

    def read(self) -> str:
        """Return the secret, without the line's end.

        Raises:
            NotAvailable: the file cannot be read, is empty, or is too long to be a secret.
        """
        try:
            with Path(self.path).open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
            secret = raw.decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            # A decoder's error would quote the secret.
            raise self._unusable(getattr(error, "strerror", None) or "it is no text") from None
        if len(raw) > _MOST_BYTES:
            raise self._unusable(f"it is longer than {_MOST_BYTES:,} bytes")
        if not secret:
            raise self._unusable("it is empty")
        return secret

    def _unusable(self, why: str) -> NotAvailable:
        said = f"a file of the settings cannot be used: {self.setting} = {self.path} ({why})"
        return NotAvailable(said).because(SecurityFault(SecurityKind.FILE, self.server, said))


class KafkaSecrets(NamedTuple):
    """The files for the logins to Kafka; None for one that is not named."""

    password: SecretFile | None
    token: SecretFile | None
