"""A port with TLS and nothing behind it, for certificates that no real server would start with."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onceward.servers.packages import program
from onceward.servers.ports import HOST
from tests.stack.authority import OPENSSL_LIMIT_S, Certificate

# PostgreSQL's question whether there is TLS.
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_LIMIT_S = 10.0


def self_signed(folder: Path, name: str, *, host: str, days: int) -> Certificate:
    """Return a certificate that is its own authority.

    Args:
        days: until it expires; negative for one that has expired.
    """
    made = Certificate(*(folder / f"{name}.{end}" for end in ("crt", "key", "pem")))
    request, names = folder / f"{name}.csr", folder / f"{name}.ext"
    names.write_text(f"subjectAltName=IP:{host}\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl("req", *key, "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(request))
    signed = ("-req", "-in", str(request), "-signkey", str(made.key), "-extfile", str(names))
    _openssl("x509", *signed, "-days", str(days), "-out", str(made.cert))
    return made


@contextmanager
def tls_front(certificate: Certificate) -> Iterator[int]:
    """Yield the port of a server that ends every connection after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, context))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError):  # the server was closed
        while True:
            sock, _ = server.accept()
            sock.settimeout(_LIMIT_S)
            with sock, suppress(OSError):
                if sock.recv(len(_SSL_REQUEST), socket.MSG_PEEK) == _SSL_REQUEST:
                    sock.recv(len(_SSL_REQUEST))
                    sock.sendall(b"S")
                context.wrap_socket(sock, server_side=True).close()


def _openssl(*words: str) -> None:
    subprocess.run(
        (program("openssl"), *words), check=True, capture_output=True, timeout=OPENSSL_LIMIT_S
    )
