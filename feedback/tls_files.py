"""Finds the file of the settings for TLS that cannot be used; OpenSSL's errors name none."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from feedback.errors import SecurityFault, SecurityKind
from feedback.security import SettingNames, fault


class Certificate(NamedTuple):
    """The certificate of a client, in files.

    Args:
        keyfile: None where the certificate's file has the key as well.
        password: of the key.
    """

    certfile: str | None
    keyfile: str | None = None
    password: str | None = None


def unusable_file(
    names: SettingNames, *, cafiles: Mapping[str, str | None], certificate: Certificate
) -> SecurityFault | None:
    """Return the fault of the first file that cannot be used; None where all can.

    Args:
        cafiles: paths of authorities' certificates, by their settings.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    place = ""
    try:
        for setting, path in cafiles.items():
            if path is not None:
                place = f"{setting} = {path}"
                context.load_verify_locations(_readable(path))
        for path in (certificate.keyfile, certificate.certfile):
            if path is not None:
                place = f"{names.certificate}, {path}"
                _readable(path)
        if certificate.certfile is not None:
            # A key without its password is asked for on the terminal, if we give none.
            password = certificate.password or ""
            context.load_cert_chain(certificate.certfile, certificate.keyfile, lambda: password)
    except (OSError, ValueError) as error:
        said = getattr(error, "reason", None) or getattr(error, "strerror", None)
        return fault(SecurityKind.FILE, names, said or type(error).__name__, more=place)
    return None


def _readable(path: str) -> str:
    with Path(path).open("rb"):
        return path
