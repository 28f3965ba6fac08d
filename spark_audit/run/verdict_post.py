"""The verdict into a chat: one line, posted where Slack and its like take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from feedback.logs import EventLog
from feedback.web.slack import escaped
from feedback.web.webhook import post_json
from spark_audit.say.summary import one_line

TRIES = 5
BACKOFF_S = 0.5
_LOG = EventLog("onceward.audit")


def post(url: str, summary: Mapping[str, Any], *, backoff_s: float = BACKOFF_S) -> bool:
    """Post the verdict and say whether it was taken; a failure is a warning in the log.

    Args:
        url: a secret.
        backoff_s: the pause after the second try; each further one is twice as long.
    """
    fault = post_json(url, {"text": text_of(summary)}, tries=TRIES, backoff_s=backoff_s)
    if fault is not None:
        _LOG.warning("webhook.failed", reason=fault)
    return fault is None


def text_of(summary: Mapping[str, Any]) -> str:
    """Return the line with the three characters escaped that mean something to Slack."""
    return escaped(one_line(summary))
