"""Submissions, each under a key of its own, and the account of those that were accepted."""

from __future__ import annotations

import json
import uuid
from collections import Counter

from feedback.records.envelope import decode_headers
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import State
from producer_client.http.ids import request_id_of
from tests.bench.http.connections import Reply
from tests.bench.submit.serving import payload
from tests.producer_client.records import records_of

BODY = json.dumps(payload(), separators=(",", ":")).encode()


class Submissions:
    """Makes submissions and judges their answers.

    Attributes:
        begun: how many were made.
        accepted: the ids of those that were answered as they must be.
        wrong: all others.
    """

    def __init__(self, topic: str) -> None:
        self._head = (
            f"POST /v1/{topic} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f'Content-Length: {len(BODY)}\r\nIdempotency-Key: "'
        ).encode()
        self._asked: dict[int, str] = {}
        self.begun = 0
        self.accepted: list[str] = []
        self.wrong = 0

    def message(self, lane: int) -> bytes:
        """Return a submission under a new key."""
        self.begun += 1
        key = uuid.uuid4().hex
        self._asked[lane] = request_id_of("", key)
        return self._head + key.encode() + b'"\r\n\r\n' + BODY

    def judge(self, lane: int, reply: Reply) -> None:
        """Count an answer: 202, with the id of this caller and key, and not as a repeat."""
        request_id = self._asked.pop(lane)
        if reply.status == 202 and not reply.header(b"idempotent-replayed"):
            document = json.loads(reply.body)
            place = reply.header(b"location").decode()
            found = document["request_id"], document["state"], place
            if found == (request_id, State.PENDING, f"/v1/requests/{request_id}"):
                self.accepted.append(request_id)
                return
        self.wrong += 1


def missing(settings: Settings, topic: str, request_ids: list[str]) -> int:
    """Return how many requests are not once in Kafka, with their value, and PENDING in Redis."""
    records = records_of(settings.kafka.bootstrap_servers, topic)
    sent = Counter(decode_headers(one).request_id for one in records if one.value == BODY)
    with connect(settings.redis) as redis:
        found = StatusStore(redis, settings.kafka.group, settings.redis).read_many(request_ids)
    return sum(
        one.state is not State.PENDING or sent[request_id] != 1
        for request_id, one in zip(request_ids, found, strict=True)
    )
