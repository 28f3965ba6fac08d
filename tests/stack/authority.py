"""A certificate authority of one test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onceward.servers.errors import StackError
from onceward.servers.packages import program
from onceward.servers.ports import HOST

OPENSSL_LIMIT_S = 60.0
DAYS = 2
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, in files.

    Attributes:
        cert: the certificate, as PEM.
        key: its key, as PEM (PKCS#8, without a password).
        both: a file with the key and the certificate, as Kafka takes it.
    """

    cert: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates for a test's servers and users.

    Args:
        folder: for its key and all that it signs.
        name: its own, in its certificate.

    Attributes:
        cafile: its own certificate, by which clients trust the others.

    Raises:
        StackError: OpenSSL is not installed, or made no certificate.
    """

    def __init__(self, folder: Path, *, name: str = "authority of a test") -> None:
        self._folder = folder
        self.cafile = folder / "authority.pem"
        self._key = folder / "authority.key"
        _request(name, self.cafile, self._key, ())

    def issue(
        self, name: str, *, hosts: Sequence[str] = (f"IP:{HOST}", "DNS:localhost")
    ) -> Certificate:
        """Return a certificate that this authority has signed.

        Args:
            name: the common name; also that of the files.
            hosts: the alternative names, as `IP:127.0.0.1`; none for a user.
        """
        stem = self._folder / name
        made = Certificate(*(stem.with_name(f"{name}.{end}") for end in ("crt", "key", "pem")))
        extensions = ["basicConstraints=critical,CA:FALSE"]
        if hosts:
            extensions.append(f"subjectAltName={','.join(hosts)}")
        signed = ["-CA", str(self.cafile), "-CAkey", str(self._key)]
        added = [word for one in extensions for word in ("-addext", one)]
        _request(name, made.cert, made.key, (*signed, *added))
        made.both.write_text(made.key.read_text() + made.cert.read_text())
        return made


def _request(name: str, cert: Path, key: Path, more: Sequence[str]) -> None:
    files = ("-out", str(cert), "-keyout", str(key))
    own = ("req", "-x509", *_NEW_KEY, *files, "-days", str(DAYS), "-subj", f"/CN={name}")
    done = subprocess.run(
        (program("openssl"), *own, *more), capture_output=True, text=True, timeout=OPENSSL_LIMIT_S
    )
    if done.returncode:
        raise StackError("OpenSSL made no certificate", done.stdout + done.stderr)
