"""The verdict into a chat: one line, posted where Slack and its like take it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from feedback.logs import EventLog
from spark_audit.summary import one_line

TRIES = 5
TIMEOUTS_S = (5.0, 10.0)
BACKOFF_S = 0.5
_RETRIED = (429, 500, 502, 503, 504)
_LOG = EventLog("onceward.audit")
# They tell every retry with the path, which is the secret of such a URL.
_TELLTALES = ("urllib3.connectionpool", "urllib3.util.retry")


def post(url: str, summary: Mapping[str, Any], *, backoff_s: float = BACKOFF_S) -> bool:
    """Post the verdict and say whether it was taken; a failure is a warning in the log.

    Args:
        url: a secret; neither it nor an error's text, which quotes it, is logged.
        backoff_s: the pause after the second try; each further one is twice as long.
    """
    retries = Retry(
        total=TRIES - 1,
        allowed_methods={"POST"},
        status_forcelist=_RETRIED,
        backoff_factor=backoff_s,
        # A server that asks for an hour would hold up the audit for an hour.
        respect_retry_after_header=False,
        raise_on_status=False,
    )
    with requests.Session() as session, _hushed():
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retries))
        try:
            # Not to wherever it points: the next place might be anybody's.
            answer = session.post(
                url, json={"text": text_of(summary)}, timeout=TIMEOUTS_S, allow_redirects=False
            )
        except (requests.RequestException, ValueError) as error:
            _LOG.warning("webhook.failed", error=type(error).__name__)
            return False
    if answer.status_code // 100 != 2:
        _LOG.warning("webhook.failed", status=answer.status_code)
        return False
    return True


def text_of(summary: Mapping[str, Any]) -> str:
    """Return the line with the three characters escaped that mean something to Slack."""
    line = one_line(summary)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@contextmanager
def _hushed() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _TELLTALES]
    before = [one.disabled for one in loggers]
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one, was in zip(loggers, before, strict=True):
            one.disabled = was
