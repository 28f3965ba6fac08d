"""JSON posted to where Slack and its like take it. The URL is a secret: nothing here tells it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

_RETRIED = (429, 500, 502, 503, 504)
# They tell every retry with the path, which is the secret of such a URL.
_TELLTALES = ("urllib3.connectionpool", "urllib3.util.retry")


def post_json(
    url: str,
    body: Mapping[str, Any],
    *,
    tries: int = 1,
    backoff_s: float = 0.5,
    timeouts_s: tuple[float, float] = (5.0, 10.0),
) -> str | None:
    """Return None when it was taken, else why it was not, in one word or two.

    Args:
        url: neither it nor an error's text, which quotes it, is logged or returned.
        tries: how often a server is asked that is busy or away.
        backoff_s: the pause after the second try; each further one is twice as long.
        timeouts_s: for the connection, and for the first of an answer.
    """
    retries = Retry(
        total=tries - 1,
        allowed_methods={"POST"},
        status_forcelist=_RETRIED,
        backoff_factor=backoff_s,
        # A server that asks for an hour would hold up its client for an hour.
        respect_retry_after_header=False,
        raise_on_status=False,
    )
    with requests.Session() as session, _hushed():
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retries))
        try:
            # Not to wherever it points: the next place might be anybody's. Nor is what it says
            # read: it might never come to an end.
            with session.post(
                url, json=dict(body), timeout=timeouts_s, allow_redirects=False, stream=True
            ) as answer:
                status = answer.status_code
        except (requests.RequestException, ValueError) as error:
            return type(error).__name__
    return None if status // 100 == 2 else f"status {status}"


class _Hush(threading.local, logging.Filter):
    """Lets pass what this thread logs, but while it posts."""

    is_on = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be logged."""
        return not self.is_on


_hush = _Hush()
for _name in _TELLTALES:
    logging.getLogger(_name).addFilter(_hush)


@contextmanager
def _hushed() -> Iterator[None]:
    _hush.is_on = True
    try:
        yield
    finally:
        _hush.is_on = False
