"""The message that is posted: a text for people, as Slack takes it, and JSON for programs. Pure.

Ids, messages and reasons come from outside: in the text they are cut, stand on one line and can
name nobody and point nowhere. Payloads are in neither.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from consumer.features.alerts.grouping import Alert, AlertKind
from feedback.console.printable import printable
from feedback.doubling import doubled
from feedback.logs import EventLog
from feedback.observer import Observer
from feedback.records.dead_letter_topics import source_topic
from feedback.web.slack import escaped

log = EventLog("onceward.alerts")

Post = Callable[[str, Mapping[str, Any]], str | None]

# Of alerts that wait for a webhook that is away; the oldest are let go.
MOST_WAITING = 50
# The alerts of one message: a chat limits the length of a message.
AT_ONCE = 20
TRIES = 6
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0


class WebhookQueue:
    """Posts alerts to one URL. Belongs to one thread.

    Logs `webhook.failed` once, however often it fails, and `webhook.back`.

    Args:
        post: posts; returns why it was not taken, None when it was.
        observers: hear how many alerts were `sent`, `failed` (a try) or `dropped`.
    """

    def __init__(
        self, url: str, *, post: Post, sender: AlertSender, observers: Sequence[Observer] = ()
    ) -> None:
        self._url = url
        self._post = post
        self._sender = sender
        self._observers = observers
        self._waiting: deque[Alert] = deque()
        self._tried = 0
        self._again_s = 0.0

    def add(self, alerts: Sequence[Alert]) -> None:
        """Take in alerts; those beyond the limit are dropped, the oldest first."""
        self._waiting.extend(alerts)
        self._drop(len(self._waiting) - MOST_WAITING)

    @property
    def next_due_s(self) -> float | None:
        """The monotonic time of the next try; None with nothing to post."""
        return self._again_s if self._waiting else None

    def post(self, now_s: float) -> None:
        while self._waiting and now_s >= self._again_s:
            some = list(self._waiting)[:AT_ONCE]
            fault = self._post(self._url, alert_body(some, self._sender))
            if fault is None:
                self._taken(len(some))
            else:
                self._failed(fault, len(some), now_s)

    def _taken(self, count: int) -> None:
        for _ in range(count):
            one = self._waiting.popleft()
            log.info("alert.sent", kind=one.kind, topic=one.topic, count=one.count)
        if self._tried:
            log.info("webhook.back")
        self._tried, self._again_s = 0, 0.0
        self._counted("sent", count)

    def _failed(self, fault: str, count: int, now_s: float) -> None:
        if not self._tried:
            log.warning("webhook.failed", reason=fault)
        self._counted("failed", count)
        self._tried += 1
        self._again_s = now_s + doubled(FIRST_PAUSE_S, LONGEST_PAUSE_S, self._tried)
        if self._tried % TRIES == 0:
            self._drop(count)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            one = self._waiting.popleft()
            log.warning("alert.dropped", kind=one.kind, topic=one.topic, count=one.count)
        if count > 0:
            self._counted("dropped", count)

    def _counted(self, what: str, count: int) -> None:
        for one in self._observers:
            one.counted("alerts", what, count)


ID_LIMIT = 128
DETAIL_LIMIT = 300
TEXT_LIMIT = 12_000
SHOWN_CODES = 5
_ELLIPSIS = "…"


class AlertSender(NamedTuple):
    """The worker that sends it."""

    group: str
    worker_id: str
    config: str | None = None


def alert_body(alerts: Sequence[Alert], sender: AlertSender) -> Mapping[str, Any]:
    text = "\n".join(alert_text(one, sender) for one in alerts)
    return {
        "text": text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + _ELLIPSIS,
        "onceward": {
            "version": 1,
            "group": sender.group,
            "worker_id": sender.worker_id,
            "alerts": [_fields(one, sender) for one in alerts],
        },
    }


def alert_text(alert: Alert, sender: AlertSender) -> str:
    """Return an alert as people read it: the kind, an example, and the command that shows it."""
    lines = [f"*{_plain(alert.topic)}* (group {_plain(sender.group)}): {_what(alert)}"]
    example = [_code(one, ID_LIMIT) for one in alert.request_ids[:1]]
    if alert.detail:
        example.append(_code(alert.detail, DETAIL_LIMIT))
    if example:
        lines.append(": ".join(example))
    lines.append(_code(command_of(alert, sender), 1000))
    return "\n".join(lines)


def command_of(alert: Alert, sender: AlertSender) -> str:
    match alert.kind:
        case AlertKind.FIRST | AlertKind.RATE:
            words = ["onceward-dlq", "list", "--topic", source_topic(alert.topic, sender.group)]
            if len(alert.codes) == 1:
                words += ["--code", *(_cut(code, ID_LIMIT) for code in alert.codes)]
        case AlertKind.PAUSED:
            words = ["onceward-worker", "paused"]
        case _:
            words = ["onceward-worker", "check"]
    if sender.config is not None:
        words += ["--config", sender.config]
    return shlex.join(words)


def _what(alert: Alert) -> str:
    match alert.kind:
        case AlertKind.FIRST:
            return f"a failure not seen for a day: {_codes(alert)}"
        case AlertKind.RATE:
            return f"{alert.level:,.0f} dead letters within a minute: {_codes(alert)}"
        case AlertKind.AGE:
            waits = f"{alert.count:,} {'failure waits' if alert.count == 1 else 'failures wait'}"
            return f"{waits} for a dead letter, the oldest for {_duration(alert.level)}"
        case AlertKind.HINDERED:
            return "dead letters cannot be written; none is lost, they wait in the journal"
        case AlertKind.PAUSED:
            return "paused" + (f" by {_code(alert.by, ID_LIMIT)}" if alert.by else "")


def _codes(alert: Alert) -> str:
    most = sorted(alert.codes.items(), key=lambda one: (-one[1], one[0]))
    told = [f"{_code(code, ID_LIMIT)} ({count:,})" for code, count in most[:SHOWN_CODES]]
    left = len(most) - len(told)
    return ", ".join(told) + (f" and {left} more" if left else "")


def _fields(alert: Alert, sender: AlertSender) -> Mapping[str, Any]:
    fields: dict[str, Any] = {
        "kind": str(alert.kind),
        "topic": alert.topic,
        "count": alert.count,
        "codes": {_cut(code, ID_LIMIT): count for code, count in alert.codes.items()},
        "request_ids": [_cut(one, ID_LIMIT) for one in alert.request_ids],
        "detail": _cut(alert.detail, DETAIL_LIMIT),
        "by": _cut(alert.by, ID_LIMIT),
        "first_at": alert.first_at,
        "last_at": alert.last_at,
        "command": command_of(alert, sender),
    }
    if alert.kind is AlertKind.RATE:
        fields["per_minute"] = round(alert.level)
    if alert.kind is AlertKind.AGE:
        fields["oldest_s"] = round(alert.level)
    return fields


def _code(text: str, limit: int) -> str:
    """Return text as Slack shows it letter by letter: nothing in it is a link or a name."""
    return "`" + escaped(_cut(text, limit)).replace("`", "'") + "`"


def _plain(name: str) -> str:
    # Of a topic or a group, which have no character that means something.
    return escaped(_cut(name, 249))


def _cut(text: str, limit: int) -> str:
    shown = printable(text[:limit])
    return shown if len(shown) <= limit and len(text) <= limit else shown[: limit - 1] + _ELLIPSIS


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
