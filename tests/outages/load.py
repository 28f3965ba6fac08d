"""Requests at a steady rate while something fails, and the account of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from feedback.errors import NotSent, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.status import State
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.kit.load import Load

RATE_PER_S = 20
BODY = {"takes_s": 0.01}
SENT_LIMIT_S = 60.0
TOLD_LIMIT_S = 40.0
WAITERS = 16


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the requests of one load.

    Attributes:
        sent: requests whose sending was acknowledged or is of unknown outcome.
        refused: requests that were known not to be sent, and not repeated.
        states: how many ended in which final status.
        never_told: request ids without a final status in time.
        ran_twice: request ids that ran more than once.
        told_wrongly: request ids that are told to have succeeded and never ran.
    """

    sent: int
    refused: int
    states: Mapping[State, int]
    never_told: tuple[str, ...]
    ran_twice: tuple[str, ...]
    told_wrongly: tuple[str, ...]


class CountedLoad(Load):
    """Sends `RATE_PER_S` requests a second for the length of a block, and counts them."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(self._send, rate_per_s=RATE_PER_S)
        self._stage = stage
        self._client = stage.client
        self._topic = stage.topics["work"]
        self._unknown: set[str] = set()
        self._sent: list[str] = []
        self._refused = 0

    def await_sent(self, count: int) -> None:
        """Return when so many more were sent."""
        target = len(self._sent) + count
        eventually(lambda: len(self._sent) >= target, timeout_s=SENT_LIMIT_S, what="the load")

    def await_tried(self, count: int) -> None:
        """Return when so many more were sent or refused; each try lasts while Kafka is away."""
        target = len(self._sent) + self._refused + count
        tried = lambda: len(self._sent) + self._refused >= target  # noqa: E731
        eventually(tried, timeout_s=SENT_LIMIT_S, what="the load")

    def account(self) -> Account:
        """Return what became of all, waiting for each; to be called after the block.

        A client that waits resends what is LOST, as any client of the product does.
        """
        with ThreadPoolExecutor(WAITERS, thread_name_prefix="account") as waiters:
            ends = dict(zip(self._sent, waiters.map(self._final, self._sent), strict=True))
        runs = Counter(run["request_id"] for run in self._stage.runs())
        return Account(
            sent=len(self._sent),
            refused=self._refused,
            states=Counter(state for state in ends.values() if state is not None),
            never_told=tuple(one for one, state in ends.items() if state is None),
            ran_twice=tuple(one for one, count in runs.items() if count > 1),
            told_wrongly=tuple(
                one for one, state in ends.items() if state is State.SUCCEEDED and not runs[one]
            ),
        )

    def _final(self, request_id: str) -> State | None:
        try:
            if request_id in self._unknown:
                # As its error says: harmless, and needed where Redis never had it.
                eventually(lambda: self._is_sent(request_id), timeout_s=TOLD_LIMIT_S)
            return self._client.wait(request_id, timeout_s=TOLD_LIMIT_S).state
        except (WaitTimeout, RedisUnavailable, TimeoutError):
            return None

    def _is_sent(self, request_id: str) -> bool:
        try:
            self._client.send(BODY, topic=self._topic, request_id=request_id)
        except (NotSent, SendUnknown, RedisUnavailable):
            return False
        return True

    def _send(self, _: int) -> None:
        try:
            self._sent.append(self._client.send(BODY, topic=self._topic).request_id)
        except SendUnknown as unknown:
            self._sent.append(unknown.request_id)
            self._unknown.add(unknown.request_id)
        except (NotSent, RedisUnavailable):
            self._refused += 1
