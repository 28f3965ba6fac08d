"""JSON posted to a webhook, as Slack's. The URL is a secret: it is never logged or returned."""

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
# They log every retry with the path, and the path is the secret.
_LOGGERS = ("urllib3.connectionpool", "urllib3.util.retry")


def post_json(
    url: str,
    body: Mapping[str, Any],
    *,
    tries: int = 1,
    backoff_s: float = 0.5,
    timeouts_s: tuple[float, float] = (5.0, 10.0),
) -> str | None:
    """Post one JSON object. Return None when the server took it, else the reason in a word or two.

    Args:
        url: the secret address. Error texts quote it, so they are neither logged nor returned.
        body: the object.
        tries: the most tries while the server is busy or away.
        backoff_s: the pause after the second try, in seconds; each further one is twice as long.
        timeouts_s: to connect, and to wait for the first byte of the answer, in seconds.
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
            # No redirect is followed: it might lead to a stranger's server. The body is not read:
            # it might never end.
            with session.post(
                url, json=dict(body), timeout=timeouts_s, allow_redirects=False, stream=True
            ) as answer:
                status = answer.status_code
        except (requests.RequestException, ValueError) as error:
            return type(error).__name__
    return None if status // 100 == 2 else f"status {status}"


class _Hush(threading.local, logging.Filter):
    """Drops the log records of a thread while that thread posts."""

    is_on = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be logged."""
        return not self.is_on


_hush = _Hush()
for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_hush)


@contextmanager
def _hushed() -> Iterator[None]:
    _hush.is_on = True
    try:
        yield
    finally:
        _hush.is_on = False
