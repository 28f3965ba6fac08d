"""The verdict posted to a chat."""

import json
import logging
from collections.abc import Iterator

import pytest

from feedback.logs import event_of
from onceward.servers.ports import free_port
from spark_audit.say.summary import TRIES, post_verdict, slack_line
from tests.kit.webhook import SECRET, Hook, open_hook
from tests.spark_audit.say.samples import summary


@pytest.fixture
def chat() -> Iterator[Hook]:
    """A chat that takes messages."""
    with open_hook() as opened:
        yield opened


def _post(url: str) -> bool:
    return post_verdict(url, summary(), backoff_s=0.001)


def test_the_verdict_is_posted_as_slack_takes_it(chat: Hook) -> None:
    assert _post(chat.url)
    ((path, body),) = chat.received
    assert path == f"/services/{SECRET}"
    assert json.loads(body) == {"text": slack_line(summary())}
    assert "GOOD, 100 requests" in slack_line(summary())


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_tried_again_at_once_and_not_when_it_pleases(
    chat: Hook, status: int
) -> None:
    chat.answers = [status] * (TRIES - 1)
    assert _post(chat.url)
    assert len(chat.received) == TRIES


def test_a_server_that_stays_busy_is_given_up(chat: Hook, caplog: pytest.LogCaptureFixture) -> None:
    chat.answers = [503] * 9
    assert not _post(chat.url)
    assert len(chat.received) == TRIES
    assert [event_of(one) for one in caplog.records] == ["webhook.failed"]


@pytest.mark.parametrize("status", [302, 307, 400, 404, 410])
def test_what_is_refused_or_sent_elsewhere_is_not_tried_again(chat: Hook, status: int) -> None:
    chat.answers = [status]
    assert not _post(chat.url)
    assert len(chat.received) == 1


@pytest.mark.parametrize("answers", [[200], [503, 200], [503] * 9, [404], [302]])
def test_the_url_is_in_no_log_whatever_happens(
    chat: Hook, answers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chat.answers = answers
    _post(chat.url)
    assert SECRET not in _logged(caplog)


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:{{port}}/{SECRET}",
        f"{SECRET}",
        f"ftp://127.0.0.1/{SECRET}",
        f"http://[{SECRET}/",
        "",
    ],
)
def test_a_place_that_is_not_there_is_a_warning_without_the_url(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert not _post(url.replace("{port}", str(free_port())))
    assert "webhook.failed" in _logged(caplog)
    assert SECRET not in _logged(caplog)


def test_a_log_that_was_on_is_on_again(chat: Hook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _post(chat.url)
    logging.getLogger("urllib3.connectionpool").debug("of somebody else")
    assert [event_of(one) for one in caplog.records] == ["of somebody else"]


def test_what_means_something_to_slack_is_escaped() -> None:
    assert "&lt;!channel&gt; &amp;" in slack_line(summary(unseen=["<!channel> &"]))


def _logged(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records)
