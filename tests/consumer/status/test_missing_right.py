"""A Redis user without a right that a script needs: told as soon as it is granted, counted then."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from redis import Redis

from consumer.status.status_writer import StatusWriter
from feedback.errors import RedisUnavailable
from feedback.logs import event_of, fields_of
from feedback.redis.server import connect
from feedback.redis.split_batch import write_apart
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.eventually import eventually
from tests.feedback.samples import a_write
from tests.stack import Servers

PASSWORD = "of-one-test"
# Far less than the 300 s for which a status that Redis refuses is put aside.
LIMIT_S = 30.0

SetUser = Callable[..., None]


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex}"


@pytest.fixture
def set_user(servers: Servers, user: str) -> Iterator[SetUser]:
    """Give a user of the test's own rules of `ACL SETUSER`."""
    with closing(Redis.from_url(servers.redis)) as admin:
        raw: Any = admin

        def change(*rules: str) -> None:
            raw.execute_command("ACL", "SETUSER", user, *rules)

        change("on", f">{PASSWORD}", "~*", "&*", "+@all")
        yield change
        raw.execute_command("ACL", "DELUSER", user)


@pytest.fixture
def store(servers: Servers, user: str) -> Iterator[StatusStore]:
    """Return a store that connects as that user."""
    url = servers.redis.replace("redis://", f"redis://{user}:{PASSWORD}@", 1)
    settings = RedisSection(url=url)
    with closing(StatusStore(connect(settings), f"g-{uuid.uuid4().hex}", settings)) as made:
        yield made


def _ended(request_id: str) -> StatusWrite:
    return a_write(State.SUCCEEDED, request_id=request_id, generation=1, restore=True)


@pytest.mark.parametrize("right", ["publish", "hset", "zrem"])
def test_a_right_that_is_missing_within_a_script_is_no_bad_data(
    store: StatusStore, set_user: SetUser, right: str
) -> None:
    set_user(f"-{right}")
    with pytest.raises(RedisUnavailable, match="lacks a right") as caught:
        write_apart(store, [_ended("a"), _ended("b")])
    fault = caught.value.fault
    assert fault is not None and str(fault.kind) == "missing_right"
    # The script may have written before it came there.
    assert not caught.value.never_reached


def test_statuses_are_told_when_the_right_is_granted_and_counted_only_then(
    store: StatusStore, set_user: SetUser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    set_user("-hset")
    writer = StatusWriter(store)
    writer.start()
    writer.tell([_ended("a"), _ended("b")])
    eventually(lambda: writer.redis_away, timeout_s=LIMIT_S)
    assert writer.take_restored() == 0
    set_user("+hset")
    eventually(lambda: writer.is_all_told, timeout_s=LIMIT_S)
    states = [one.state for one in store.read_many(["a", "b"])]
    assert states == [State.SUCCEEDED, State.SUCCEEDED]
    assert (writer.take_restored(), writer.take_restored()) == (2, 0)
    writer.stop(LIMIT_S)
    said = [(event_of(one), fields_of(one).get("fault")) for one in caplog.records]
    assert said == [("access.refused", "missing_right"), ("redis.back", None)]
