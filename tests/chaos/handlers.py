"""The handlers of the load, one of each declaration; what they do stands in the order."""

from __future__ import annotations

import os
import time
from typing import Any

from consumer import Request, handler
from tests.chaos import deeds
from tests.chaos.deeds import Busy
from tests.chaos.orders import Kind, topic_of

TOPICS = os.environ["CHAOS_TOPICS"]
TIME_LIMIT_S = float(os.environ["CHAOS_TIME_LIMIT_S"])


@handler(
    topic=topic_of(TOPICS, Kind.MARKED),
    effect="marked",
    in_doubt="park",
    retry_on=(Busy,),
    time_limit_s=TIME_LIMIT_S,
)
def marked(request: Request) -> Any:
    """Charge within the effect."""
    order = deeds.begin(request)
    with request.effect():
        deeds.inside(order)
        deeds.charge(request, order)
    return deeds.end(order)


@handler(
    topic=topic_of(TOPICS, Kind.EXTERNAL),
    in_doubt="park",
    retry_on=(Busy,),
    time_limit_s=TIME_LIMIT_S,
)
def external(request: Request) -> Any:
    """Charge at some time of the run."""
    order = deeds.begin(request)
    deeds.inside(order)
    deeds.charge(request, order)
    return deeds.end(order)


@handler(
    topic=topic_of(TOPICS, Kind.KEYED),
    in_doubt="retry_same_key",
    retry_on=(Busy,),
    time_limit_s=TIME_LIMIT_S,
)
def keyed(request: Request) -> Any:
    """Charge by the idempotency key."""
    order = deeds.begin(request)
    deeds.inside(order)
    deeds.charge_once(request, order)
    return deeds.end(order)


@handler(
    topic=topic_of(TOPICS, Kind.TRANSACTIONAL),
    effect="transactional",
    retry_on=(Busy,),
    time_limit_s=TIME_LIMIT_S,
)
def transactional(request: Request) -> Any:
    """Charge in the transaction of the finish."""
    order = deeds.begin(request)
    deeds.inside(order)
    # All work comes before: on SQLite the write holds the one lock until the end.
    time.sleep(order["takes_ms"] / 2000)
    deeds.charge_in_database(request, order)
    return {"charged": True}
