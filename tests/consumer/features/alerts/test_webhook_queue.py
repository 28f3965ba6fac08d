"""One webhook: what it does not take is tried again, later each time, and let go in the end."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from consumer.features.alerts.message import (
    AT_ONCE,
    LONGEST_PAUSE_S,
    MOST_WAITING,
    TRIES,
    WebhookQueue,
)
from feedback.logs import event_of
from feedback.observer import Observer
from tests.consumer.features.alerts.samples import SENDER, alert


class Tally(Observer):
    """Counts what became of alerts."""

    def __init__(self) -> None:
        self.became: Counter[str] = Counter()

    def counted(self, what: str, label: str, count: int) -> None:
        assert what == "alerts"
        self.became[label] += count


class Post:
    """A webhook in memory."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.posted: list[int] = []
        self.tried = 0
        self.tally = Tally()
        self.counted = self.tally.became
        self.queue = WebhookQueue("http://x", post=self, sender=SENDER, observers=[self.tally])

    def __call__(self, url: str, body: Mapping[str, Any]) -> str | None:
        assert url == "http://x"
        self.tried += 1
        if self.fault is None:
            self.posted.append(len(body["onceward"]["alerts"]))
        return self.fault


@pytest.fixture
def post() -> Post:
    return Post()


def test_what_waits_is_posted_together_and_no_more_than_a_chat_reads(post: Post) -> None:
    post.queue.add([alert() for _ in range(AT_ONCE + 5)])
    post.queue.post(0.0)
    assert post.posted == [AT_ONCE, 5]
    assert post.counted == {"sent": AT_ONCE + 5}
    assert post.queue.next_due_s is None


def test_a_webhook_that_fails_is_asked_later_each_time(post: Post) -> None:
    post.fault = "status 503"
    post.queue.add([alert()])
    now_s, pauses = 0.0, []
    for _ in range(TRIES - 1):
        post.queue.post(now_s)
        due_s = post.queue.next_due_s
        assert due_s is not None
        post.queue.post(due_s - 0.1)
        pauses.append(due_s - now_s)
        now_s = due_s
    assert (post.tried, pauses) == (TRIES - 1, [5.0, 10.0, 20.0, 40.0, 80.0])
    post.fault = None
    post.queue.add([alert()])
    post.queue.post(now_s)
    assert (post.posted, post.counted) == ([2], {"failed": TRIES - 1, "sent": 2})
    # It is back: the next one is posted at once.
    post.queue.add([alert()])
    post.queue.post(now_s)
    assert post.posted == [2, 1]


def test_what_was_tried_often_enough_is_let_go_and_counted(post: Post) -> None:
    post.fault = "ConnectionError"
    post.queue.add([alert(), alert()])
    for number in range(TRIES):
        post.queue.post(number * LONGEST_PAUSE_S)
    assert post.counted == {"failed": 2 * TRIES, "dropped": 2}
    assert post.queue.next_due_s is None


def test_what_waits_for_one_that_is_away_is_bounded_and_the_oldest_goes(post: Post) -> None:
    post.queue.add([alert(topic=f"t{number}") for number in range(3 * MOST_WAITING)])
    assert post.counted == {"dropped": 2 * MOST_WAITING}
    assert post.queue._waiting[0].topic == f"t{2 * MOST_WAITING}"


def test_its_failing_is_logged_once_and_its_return(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    post.fault = "status 404"
    post.queue.add([alert()])
    for number in range(3):
        post.queue.post(number * LONGEST_PAUSE_S)
    post.fault = None
    post.queue.post(9e9)
    told = [event_of(one) for one in caplog.records]
    assert told == ["webhook.failed", "alert.sent", "webhook.back"]
