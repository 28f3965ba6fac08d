"""Event streams on the real servers: a snapshot, each change, and an end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from feedback.status import State
from tests.eventually import eventually
from tests.producer_client.http.conftest import Served, create_topics, name_of_topic, served
from tests.stack import Servers


@pytest.fixture(scope="module")
def quick(servers: Servers) -> Iterator[Served]:
    """Yield a front door whose streams have heartbeats all the time."""
    topic = name_of_topic()
    create_topics(servers, topic)
    with served(servers, http={"topics": [topic], "heartbeat_s": 0.3}) as one:
        yield one


@pytest.fixture
def place(quick: Served) -> str:
    """Return the page of a new request."""
    return quick.post(uuid.uuid4().hex).headers["Location"]


def _events(stream: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield events, and `{}` for a comment."""
    fields: dict[str, str] = {}
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if line == ":":
            yield {}
        elif line:
            fields[name] = value
        elif "data" in fields:
            yield {**fields, "data": json.loads(fields.pop("data"))}


def test_who_asks_for_the_head_alone_gets_no_stream(quick: Served, place: str) -> None:
    answer = quick.http.head(f"{place}/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Type"].startswith("text/event-stream")


def test_a_stream_begins_with_the_status_tells_each_change_and_ends_after_the_last(
    quick: Served, place: str
) -> None:
    request_id = place.rpartition("/")[2]
    with quick.http.stream("GET", f"{place}/events") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        events = _events(stream)
        first = next(events)
        assert (first["event"], first["retry"]) == ("status", "1000")
        assert (first["data"]["state"], first["id"]) == (
            "PENDING",
            quick.http.get(place).headers["ETag"],
        )
        assert next(events) == {}  # a heartbeat: nothing has changed
        quick.worker.tell(request_id, State.RUNNING)
        assert next(one for one in events if one)["data"]["state"] == "RUNNING"
        quick.worker.tell(request_id, State.SUCCEEDED, result="7")
        (last,) = [one for one in events if one]
    assert (last["data"]["state"], last["data"]["final"]) == ("SUCCEEDED", True)
    eventually(lambda: "onceward_http_streams 0.0" in quick.http.get("/metrics").text)


def test_a_browser_that_comes_back_is_told_what_it_has_missed_and_no_more(
    quick: Served, place: str
) -> None:
    tag = quick.http.get(place).headers["ETag"]
    known = {"Last-Event-ID": tag}
    with quick.http.stream("GET", f"{place}/events", headers=known) as stream:
        assert next(_events(stream)) == {}
    quick.worker.tell(place.rpartition("/")[2], State.SUCCEEDED)
    with quick.http.stream("GET", f"{place}/events", headers=known) as stream:
        (missed,) = [one for one in _events(stream) if one]
    assert missed["data"]["state"] == "SUCCEEDED"
    # A browser would come back for ever.
    over = quick.http.get(f"{place}/events", headers={"Last-Event-ID": missed["id"]})
    assert (over.status_code, over.content) == (204, b"")


def test_all_streams_of_a_process_share_one_subscription(quick: Served) -> None:
    redis = quick.worker.store.redis
    places = [quick.post(uuid.uuid4().hex).headers["Location"] for _ in range(20)]
    before = len(redis.client_list(_type="pubsub"))
    with ExitStack() as stack:
        opened = [quick.http.stream("GET", f"{one}/events") for one in places]
        streams = [_events(stack.enter_context(one)) for one in opened]
        assert [next(one)["data"]["state"] for one in streams] == ["PENDING"] * 20
        assert len(redis.client_list(_type="pubsub")) - before <= 1
        # A change that nobody published: each stream looks by itself as well.
        request_id = places[7].rpartition("/")[2]
        quick.worker.tell(request_id, State.SUCCEEDED, is_heard=False)
        (last,) = [one for one in streams[7] if one]
        assert last["data"]["final"]
    # The browsers have left.
    eventually(lambda: "onceward_http_streams 0.0" in quick.http.get("/metrics").text)
