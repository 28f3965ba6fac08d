"""Tells the faults of security apart, and says each in a sentence with its correction. Pure.

The libraries of Kafka, Redis and PostgreSQL report them in words of their own, and some as an
outage. The adapters recognise them, and name the settings of their server by `SettingNames`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

from feedback.errors import SecurityFault, SecurityKind


class SettingNames(NamedTuple):
    """The settings of one server, as its sentences name them.

    Args:
        server: the server's name in events.
        cafile, certificate, address, login: the settings for each.
        with_tls, without_tls: what to write for a connection with TLS, and without it.
    """

    server: str
    cafile: str
    certificate: str
    address: str
    login: str
    with_tls: str
    without_tls: str


KAFKA = SettingNames(
    server="kafka",
    cafile="[kafka] ssl_cafile",
    certificate="[kafka] ssl_certfile and ssl_keyfile",
    address="[kafka] bootstrap_servers",
    login="[kafka] sasl_plain_username and sasl_plain_password",
    with_tls="set [kafka] security_protocol to SSL or SASL_SSL",
    without_tls="set [kafka] security_protocol to PLAINTEXT or SASL_PLAINTEXT",
)
REDIS = SettingNames(
    server="redis",
    cafile="ssl_ca_certs in [redis] url",
    certificate="ssl_certfile and ssl_keyfile in [redis] url",
    address="[redis] url",
    login="user and password in [redis] url",
    with_tls="begin [redis] url with rediss://",
    without_tls="begin [redis] url with redis://",
)


def of_database(section: str) -> SettingNames:
    """Return the names of a PostgreSQL.

    Args:
        section: the section of the settings with its URL.
    """
    url = f"[{section}] url"
    return SettingNames(
        server=section,
        cafile=f"sslrootcert in {url}",
        certificate=f"sslcert and sslkey in {url}",
        address=url,
        login=f"user and password in {url}",
        with_tls=f"write sslmode=verify-full into {url}",
        without_tls=f"write sslmode=disable into {url}",
    )


_SENTENCES = MappingProxyType(
    {
        SecurityKind.PASSWORD: "the server refuses user or password: correct {names.login}",
        SecurityKind.UNTRUSTED: (
            "the server's certificate is of an authority that is not trusted here: name its "
            "file in {names.cafile}"
        ),
        SecurityKind.EXPIRED: (
            "the server's certificate is not valid at this time: renew it there, or correct the "
            "clock of this host"
        ),
        SecurityKind.HOST_NAME: (
            "the server's certificate is for another host name: use a name of the certificate in "
            "{names.address}, or renew it with this name"
        ),
        SecurityKind.CLIENT_CERTIFICATE: (
            "the server refuses the certificate of this client, or misses one: correct "
            "{names.certificate}"
        ),
        SecurityKind.NEEDS_TLS: "the server speaks TLS, and we do not: {names.with_tls}",
        SecurityKind.NO_TLS: (
            "the server speaks no TLS, and we do: {names.without_tls}, or name its TLS port in "
            "{names.address}"
        ),
        SecurityKind.NEEDS_LOGIN: "the server wants a login: give {names.login}",
        SecurityKind.NO_LOGIN: (
            "the server takes no login, and we give one: leave out {names.login}, or name another "
            "port in {names.address}"
        ),
        SecurityKind.MECHANISM: "the server does not take this kind of login",
        SecurityKind.FILE: "a file of the settings cannot be used",
        SecurityKind.RIGHT: "this user lacks a right",
    }
)

# OpenSSL, X509_V_ERR_*: not yet valid, expired; the same of a CRL.
_NOT_NOW = frozenset({9, 10, 11, 12})
# Host name, e-mail and IP address mismatch.
_OTHER_NAME = frozenset({62, 63, 64})
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "HTTP_REQUEST",
)
# The alert of a server that refuses the certificate of a client. Its text is all that OpenSSL says.
_CLIENT_REFUSED = (
    "certificate required",
    "bad certificate",
    "unknown ca",
    "certificate unknown",
    "certificate expired",
    "certificate revoked",
    "unsupported certificate",
    "access denied",
    "handshake failure",
)


def fault(
    kind: SecurityKind, names: SettingNames, detail: str = "", *, more: str = ""
) -> SecurityFault:
    """Return a fault with its sentence.

    Args:
        detail: the words of the library or the server, one line without a secret.
        more: another correction than that of the kind.

    >>> fault(SecurityKind.PASSWORD, REDIS, "WRONGPASS").said
    'the server refuses user or password: correct user and password in [redis] url (WRONGPASS)'
    """
    said = _SENTENCES[kind].format(names=names)
    said = f"{said}: {more}" if more else said
    return SecurityFault(kind, names.server, f"{said} ({detail})" if detail else said)


def causes(
    error: BaseException | None, handled: BaseException | None = None
) -> Iterator[BaseException]:
    """Yield an error and those behind it, the nearest first.

    kafka-python puts a cause into the arguments.

    Args:
        handled: an error that was being handled when the call began, and says nothing about it.
    """
    seen = {id(handled)}
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        within = error.args[0] if error.args else None
        error = error.__cause__ or error.__context__ or _as_error(within)


def _as_error(value: object) -> BaseException | None:
    return value if isinstance(value, BaseException) else None


def of_tls(
    error: BaseException, names: SettingNames, handled: BaseException | None = None
) -> SecurityFault | None:
    """Return the fault of a TLS connection; None where TLS is not the cause, or says too little.

    A connection that ends within the handshake is such a case: the server may be stopping.

    Args:
        handled: see `causes`.
    """
    for one in causes(error, handled):
        if isinstance(one, ssl.SSLCertVerificationError):
            return fault(_of_verification(one.verify_code), names, one.verify_message)
        if isinstance(one, ssl.SSLError):
            kind = of_tls_words(one.reason or str(one))
            return None if kind is None else fault(kind, names, one.reason or "")
    return None


def of_tls_words(words: str) -> SecurityKind | None:
    """Return the kind of a fault by the words of OpenSSL.

    >>> str(of_tls_words("TLSV13_ALERT_CERTIFICATE_REQUIRED"))
    'client_certificate_refused'
    """
    if any(one in words.upper().replace(" ", "_") for one in _NOT_TLS):
        return SecurityKind.NO_TLS
    plain = words.lower().replace("_", " ")
    if "alert" in plain and any(one in plain for one in _CLIENT_REFUSED):
        return SecurityKind.CLIENT_CERTIFICATE
    return None


def _of_verification(code: int) -> SecurityKind:
    if code in _NOT_NOW:
        return SecurityKind.EXPIRED
    return SecurityKind.HOST_NAME if code in _OTHER_NAME else SecurityKind.UNTRUSTED
