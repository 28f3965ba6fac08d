"""A request's hash stays in Redis' compact form, and keeps nothing that nobody reads any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import cast

import pytest

from consumer.journal import Finish
from consumer.ops.startup import worker_id_on
from consumer.status import status_messages
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import Replaced, StatusWrite
from tests.consumer.samples import SHA, delivery
from tests.feedback.samples import a_write

HOSTS = ["app-1", "h" * 200, "payments-7d9f6c5b4d-x2x9k.eu-central-1.compute.internal"]


@pytest.fixture
def store(redis_url: str, group: str) -> Iterator[StatusStore]:
    section = RedisSection(url=redis_url)
    with closing(StatusStore(connect(section), group, section)) as store:
        yield store


def _road(worker_id: str) -> list[StatusWrite]:
    one = delivery("r")
    done = Finish("r", 1, "SUCCEEDED", None, None, '{"charged":true}', resend=False)
    return [
        a_write(State.PENDING, payload_sha256=SHA, fields={"topic": "payments"}),
        status_messages.accepted(one, worker_id=worker_id),
        status_messages.running(one, 1, worker_id=worker_id),
        status_messages.finished(one, done, worker_id=worker_id),
    ]


def _hash(store: StatusStore) -> Mapping[bytes, bytes]:
    return cast("Mapping[bytes, bytes]", store.redis.hgetall(store.request_key("r")))


@pytest.mark.parametrize("host", HOSTS)
def test_a_status_stays_compact_however_long_the_name_of_its_workers_host(
    store: StatusStore, host: str
) -> None:
    worker_id = worker_id_on(host)
    for write in _road(worker_id):
        assert store.write([write]) == [None]
        assert store.redis.object("encoding", store.request_key("r")) == b"listpack"
    assert _hash(store)[b"worker"] == worker_id.encode()


def test_two_workers_of_one_host_have_two_names_which_say_the_end_of_a_long_one() -> None:
    names = {worker_id_on("h" * 200 + "-x2x9k") for _ in range(10)}
    assert len(names) == 10
    assert {len(one) for one in names} == {64}
    assert all("hh-x2x9k-" in one for one in names)
    assert worker_id_on("app/1").startswith("app-1-")


@pytest.mark.parametrize("state", [State.ACCEPTED, State.RUNNING, State.SUCCEEDED])
def test_only_a_pending_says_at_which_start_of_the_server_it_was_written(
    store: StatusStore, state: State
) -> None:
    pending = a_write(State.PENDING)
    assert store.write([pending]) == [None]
    assert store.read("r").told_in
    assert store.write([a_write(state)]) == [None]
    assert b"told_in" not in _hash(store)
    if state is State.ACCEPTED:
        again = a_write(State.PENDING, attempt=2, fields={"deadline_at": "7"})
        (replaced,) = store.replace([again])
        assert isinstance(replaced, Replaced)
        assert store.read("r").told_in
        assert store.forget(
            "r", attempt=2, payload_sha256=pending.payload_sha256, deadline_at=7, replaced=replaced
        )
        assert store.read("r").state is State.LOST
        assert b"told_in" not in _hash(store)
