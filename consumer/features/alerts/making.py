"""The alerts of a worker, made and connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consumer.features.alerts.alerts import Alerts
from consumer.features.alerts.message import Sender
from consumer.features.alerts.outlet import Outlet
from consumer.features.alerts.turns import Turns
from feedback.observer import Observer
from feedback.records.dead_letter_topics import source_topic
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings

# Nobody waits for it but the other alerts.
TIMEOUTS_S = (3.0, 5.0)


def make_alerts(
    settings: Settings,
    *,
    worker_id: str,
    store: StatusStore,
    redis_away: Callable[[], bool],
    observers: Sequence[Observer],
) -> Alerts | None:
    """Return who tells the owners of topics; None where no webhook is named.

    Args:
        store: the group's Redis, where workers take turns.
        redis_away: whether asking it would only cost time.
        observers: hear whether alerts were posted.
    """
    section = settings.alerts
    if not section.has_webhooks:
        return None
    sender = Sender(settings.kafka.group, worker_id, settings.file)
    turns = Turns(store, redis_away=redis_away, worker_id=worker_id, every_s=section.every_s)
    return Alerts(
        section,
        url_of=lambda topic: section.webhook_of(source_topic(topic, settings.kafka.group)),
        outlet=lambda url: Outlet(url, post=_post, sender=sender, observers=observers),
        is_mine=turns.is_mine,
    )


def _post(url: str, body: Mapping[str, Any]) -> str | None:
    # Memory that a worker without webhooks does not need.
    from feedback.web.webhook import post_json

    return post_json(url, body, timeouts_s=TIMEOUTS_S)
