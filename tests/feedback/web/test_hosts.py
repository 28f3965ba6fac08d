"""The socket that a server of ours listens on."""

from __future__ import annotations

import socket

import pytest

from feedback.web.hosts import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_accepted_connection_sends_each_part_of_an_answer_at_once(host: str) -> None:
    with (
        listen(host, 0, setting="[console] port") as listening,
        socket.create_connection(listening.getsockname()[:2]),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
