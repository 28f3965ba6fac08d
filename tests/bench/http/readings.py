"""Reads of statuses with the tag of the last answer, and which answers are right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from feedback.status import State
from tests.bench.http.connections import Reply, get


@dataclass(slots=True)
class _Lane:
    request_id: str
    tag: str = ""
    state: str = ""
    has_changed: bool = False
    must_be_new: bool = False

    def is_right(self, reply: Reply) -> bool:
        """Whether it is the status, and the tag's 304 where that is known already."""
        tag = reply.header(b"etag").decode()
        is_read = self.state == State.ACCEPTED or (self.state != "" and not self.must_be_new)
        if reply.status == 304:
            return is_read and tag == self.tag
        if reply.status != 200:
            return False
        document = json.loads(reply.body)
        before, self.state, self.tag = self.state, document["state"], tag
        follows = {State.PENDING} if before == "" else {State.ACCEPTED}
        return (
            document["request_id"] == self.request_id
            and before != State.ACCEPTED
            and self.state in follows
        )


class Readings:
    """Reads one request on each lane; it is PENDING at first, and ACCEPTED after its change.

    Attributes:
        wrong: answers that differ from the status: above all an old one to a question that was
            asked after the change.
    """

    def __init__(self, request_ids: Sequence[str]) -> None:
        self._lanes = [_Lane(one) for one in request_ids]
        self.wrong = 0

    def message(self, lane: int) -> bytes:
        """Return the next read of a lane."""
        one = self._lanes[lane]
        one.must_be_new = one.has_changed
        known = (f"If-None-Match: {one.tag}",) if one.tag else ()
        return get(f"/v1/requests/{one.request_id}", *known)

    def judge(self, lane: int, reply: Reply) -> None:
        """Count an answer that is wrong."""
        self.wrong += not self._lanes[lane].is_right(reply)

    def changed(self, lane: int) -> None:
        """Note that the request of a lane is ACCEPTED in Redis now."""
        self._lanes[lane].has_changed = True

    @property
    def unseen(self) -> int:
        """The lanes that never saw their change."""
        return sum(one.state != State.ACCEPTED for one in self._lanes)
