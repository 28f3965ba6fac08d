"""A failed connection to Kafka leaves no descriptor open, and a good one stays open."""

import socket

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

import feedback.kafka.kafka_python.sockets  # noqa: F401
from onceward.servers.ports import HOST, free_port


def test_the_socket_of_a_refused_connection_is_closed() -> None:
    tried = socket.socket()
    with pytest.raises(KafkaConnectionError):
        KafkaNetSocket().sock_connect(None, tried, (HOST, free_port())).send(None)
    assert tried.fileno() == -1


def test_the_socket_of_a_connection_stays_open() -> None:
    with socket.create_server((HOST, 0)) as server, socket.socket() as connected:
        with pytest.raises(StopIteration) as returned:
            KafkaNetSocket().sock_connect(None, connected, server.getsockname()).send(None)
        assert returned.value.value is connected
        assert connected.fileno() >= 0


def test_a_connection_that_is_closed_before_all_is_written_is_closed_with_its_network() -> None:
    network = NetworkSelector()
    near, far = socket.socketpair()
    near.setblocking(False)
    with far:
        transport = KafkaTCPTransport(network, near)
        transport.write(b"a request that nobody waits for")
        transport.close()
        network.close()
        assert near.fileno() == -1
