"""The verdict posted to a chat."""

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from feedback.logs import event_of
from spark_audit.run.verdict_post import TRIES, post, text_of
from tests.spark_audit.say.samples import summary
from tests.stack.ports import free_port

SECRET = "T000-B000-hunter2"


class _Chat(ThreadingHTTPServer):
    """Answers with each of `answers` in turn, then with 200; keeps what was posted."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answers: list[int] = []
        self.posted: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}"


class _Answer(BaseHTTPRequestHandler):
    server: _Chat

    def do_POST(self) -> None:
        """Keep what was posted and answer."""
        length = int(self.headers["Content-Length"])
        self.server.posted.append((self.path, self.rfile.read(length)))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Location", "/elsewhere")
        self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def chat() -> Iterator[_Chat]:
    """A chat that takes messages."""
    with _Chat() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _post(url: str) -> bool:
    return post(url, summary(), backoff_s=0.001)


def test_the_verdict_is_posted_as_slack_takes_it(chat: _Chat) -> None:
    assert _post(chat.url)
    ((path, body),) = chat.posted
    assert path == f"/services/{SECRET}"
    assert json.loads(body) == {"text": text_of(summary())}
    assert "GOOD, 100 requests" in text_of(summary())


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_tried_again_at_once_and_not_when_it_pleases(
    chat: _Chat, status: int
) -> None:
    chat.answers = [status] * (TRIES - 1)
    assert _post(chat.url)
    assert len(chat.posted) == TRIES


def test_a_server_that_stays_busy_is_given_up(
    chat: _Chat, caplog: pytest.LogCaptureFixture
) -> None:
    chat.answers = [503] * 9
    assert not _post(chat.url)
    assert len(chat.posted) == TRIES
    assert [event_of(one) for one in caplog.records] == ["webhook.failed"]


@pytest.mark.parametrize("status", [302, 307, 400, 404, 410])
def test_what_is_refused_or_sent_elsewhere_is_not_tried_again(chat: _Chat, status: int) -> None:
    chat.answers = [status]
    assert not _post(chat.url)
    assert len(chat.posted) == 1


@pytest.mark.parametrize("answers", [[200], [503, 200], [503] * 9, [404], [302]])
def test_the_url_is_in_no_log_whatever_happens(
    chat: _Chat, answers: list[int], caplog: pytest.LogCaptureFixture
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


def test_a_log_that_was_on_is_on_again(chat: _Chat, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _post(chat.url)
    logging.getLogger("urllib3.connectionpool").debug("of somebody else")
    assert [event_of(one) for one in caplog.records] == ["of somebody else"]


def test_what_means_something_to_slack_is_escaped() -> None:
    assert "&lt;!channel&gt; &amp;" in text_of(summary(unseen=["<!channel> &"]))


def _logged(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records)
