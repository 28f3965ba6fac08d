"""A port that accepts connections and never answers a TLS handshake."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from feedback.clock import monotonic_s
from feedback.kafka.kafka_python.sender import KafkaPythonSender
from feedback.kafka.kafka_python.sockets import HANDSHAKE_S
from feedback.kafka.send_errors import TopicAway
from feedback.settings.sections import KafkaSection
from onceward.servers.ports import HOST

# Its end would end the handshake as well.
SILENT_S = 6 * HANDSHAKE_S


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of such a port."""
    with socket.create_server((HOST, 0)) as server:
        ended = threading.Timer(SILENT_S, server.shutdown, (socket.SHUT_RDWR,))
        ended.start()
        yield f"{HOST}:{server.getsockname()[1]}"
        ended.cancel()


def test_a_send_ends_in_time(silent: str) -> None:
    settings = KafkaSection(bootstrap_servers=silent, security_protocol="SSL")
    sender = KafkaPythonSender(settings, send_timeout_s=1.0, max_request_bytes=1000)
    began_s = monotonic_s()
    with pytest.raises(TopicAway):
        sender.send("topic", key=None, value=b"v", headers=[])
    assert monotonic_s() - began_s < 3 * HANDSHAKE_S
    sender.close(1.0)
