"""One fault's scene: a group with a worker under load, and what must be true at its end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psutil

from feedback.clock import monotonic_s
from feedback.errors import NotSent, SendUnknown
from feedback.status import State
from producer_client.client.client import Handle
from tests.consumer.running import RunningWorker
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.kit.program import Event
from tests.outages.load import BODY, Account, CountedLoad

# How far the worker's main process may grow while something is away: 20 requests a second wait.
GROWS_AT_MOST_MIB = 64
FILES_AT_MOST_MORE = 20
NOTICED_WITHIN_S = 40.0
# The product's figure is 3 s; a machine that does five other things at once gets more.
RESUMES_WITHIN_S = 15.0

# A client whose requests are lost in the outage resends them soon.
CLIENT = {"poll_interval_s": 0.5, "resend_after_s": 3, "send_timeout_s": 2}


class Scene:
    """A worker that has done its first request, and a load on it.

    Args:
        stage: the group.
        worker: its worker.
    """

    def __init__(self, stage: Stage, worker: RunningWorker) -> None:
        self.stage = stage
        self.worker = worker
        self.load = CountedLoad(stage)
        self._process = psutil.Process(worker.pid)
        self._rss_bytes = self._process.memory_info().rss
        self._files = self._process.num_fds()

    def logs(self, name: str) -> Event:
        """Return the first event that the worker logs under this name, waiting for it."""
        return self.worker.told(name, timeout_s=NOTICED_WITHIN_S)

    def resumes(self, *, within_s: float = RESUMES_WITHIN_S) -> None:
        """Return when a request that is sent from now on, again where need be, has succeeded.

        Raises:
            TimeoutError, WaitTimeout: not `within_s`.
        """
        until_s = monotonic_s() + within_s
        request_id = f"after-{uuid.uuid4().hex}"

        def send() -> Handle | None:
            try:
                topic = self.stage.topics["work"]
                return self.stage.client.send(BODY, topic=topic, request_id=request_id)
            except (NotSent, SendUnknown):
                return None

        sent = eventually(send, timeout_s=within_s, what="a request that can be sent")
        assert sent is not None
        assert sent.wait(max(1.0, until_s - monotonic_s())).state is State.SUCCEEDED

    def end(self) -> Account:
        """Return the account, which must be clean, of a worker that is as small as it was."""
        account = self.load.account()
        assert account.never_told == ()
        assert account.ran_twice == ()
        assert account.told_wrongly == ()
        assert self.worker.is_alive
        grown_mib = (self._process.memory_info().rss - self._rss_bytes) / 2**20
        assert grown_mib < GROWS_AT_MOST_MIB
        assert self._process.num_fds() - self._files < FILES_AT_MOST_MORE
        return account

    def all_succeeded(self) -> Account:
        """Return the account, in which nothing is but successes."""
        account = self.end()
        assert account.states == {State.SUCCEEDED: account.sent}
        return account


@contextmanager
def scene_on(stage: Stage, **changes: Mapping[str, Any]) -> Iterator[Scene]:
    """Yield a scene under load; the load ends with the block, the worker does not."""
    worker = stage.start(**changes)
    stage.client.send({}, topic=stage.topics["work"]).wait(NOTICED_WITHIN_S)
    scene = Scene(stage, worker)
    with scene.load:
        scene.load.await_sent(10)
        yield scene
        scene.load.await_sent(10)


def every_partition_goes_on(stage: Stage, *, within_s: float) -> None:
    """Return when one more record of each partition has been done.

    Raises:
        WaitTimeout: one stands still.
    """
    sent = [stage.produce(b"{}", partition=one).coordinates_id for one in range(stage.partitions)]
    ended = list(stage.client.wait_many(sent, timeout_s=within_s))
    assert {one.state for one in ended} == {State.SUCCEEDED}
