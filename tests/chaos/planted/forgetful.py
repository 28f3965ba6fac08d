"""A client that says NotSent of some of what it has sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

ONE_IN = 20


@contextmanager
def plant() -> Iterator[None]:
    """Plant the fault in this process, which is where the clients of a row are."""
    from feedback.errors import NotSent
    from producer_client import Client
    from producer_client.submission import SendResult
    from tests.chaos.orders import hash_of

    send_many = Client.send_many

    def send_and_deny(client: Client, given: Iterable[Any], **rest: Any) -> Iterator[SendResult]:
        for result in send_many(client, given, **rest):
            is_denied = result.sent and hash_of(result.request_id) % ONE_IN == 0
            error = NotSent(result.request_id, "planted") if is_denied else result.error
            yield replace(result, error=error)

    with patch.object(Client, "send_many", send_and_deny):
        yield
