"""The submitting process with marks: `python -m tests.bench.road.client`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from feedback.redis.events import ChangeWatch
from feedback.redis.store import StatusStore
from feedback.status import FINAL
from feedback.statuses import Status, StatusWrite
from producer_client import Client
from producer_client.client.client import Handle
from producer_client.client.waiter import Waiter
from producer_client.sending.send_flow import SendFlow
from producer_client.submission import Prepared
from tests.bench.road.marks import Ids, marked
from tests.bench.submit.serving import serve
from tests.bench.systems.onceward_client import OncewardSubmitter


def mark_client() -> None:
    """Let the steps of sends and waits in this process write marks."""

    def written(step: str, writes: Sequence[StatusWrite]) -> list[tuple[str, Ids]]:
        return [(step, [one.request_id for one in writes])]

    def handed(_: object, batch: Sequence[Prepared], **__: object) -> list[tuple[str, Ids]]:
        return [("handed", [one.request_id for one in batch])]

    def woken(ids: Iterable[str], state: str | None = None) -> list[tuple[str, Ids]]:
        return [("woken", list(ids))] if state in FINAL else []

    def read(status: Status | None, *_: object) -> list[tuple[str, Ids]]:
        if status is None or status.state in FINAL:
            return []
        return [("watching", [status.request_id])]

    marked(
        StatusStore,
        "replace",
        before=lambda writes, **_: written("sending", writes),
        after=lambda _, writes, **__: written("pending", writes),
    )
    marked(SendFlow, "hand_over", after=handed)
    marked(Client, "send", after=lambda sent, *_, **__: [("acknowledged", [sent.request_id])])
    marked(ChangeWatch, "tell", before=woken)
    marked(Waiter, "_look", after=read)
    marked(Handle, "wait", after=lambda status, **_: [("seen", [status.request_id])])


if __name__ == "__main__":
    mark_client()
    with Client() as client:
        serve(OncewardSubmitter(client))
