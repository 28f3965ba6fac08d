"""Handlers whose declaration stands in a file, which a deploy changes (`deploys`)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from consumer import Request, handler
from tests.chaos import deeds
from tests.chaos.declarations import Declaration
from tests.chaos.orders import Kind, topic_of

DECLARED = Declaration.from_json(Path(os.environ["CHAOS_DECLARATION"]).read_text())
TOPICS = os.environ["CHAOS_TOPICS"]
TIME_LIMIT_S = float(os.environ["CHAOS_TIME_LIMIT_S"])


def marked(request: Request) -> Any:
    """Charge within the effect."""
    order = deeds.begin(request)
    with request.effect():
        _charge(request, order)
    return deeds.end(order)


def external(request: Request) -> Any:
    """Charge at some time of the run."""
    order = deeds.begin(request)
    _charge(request, order)
    return deeds.end(order)


def transactional(request: Request) -> Any:
    """Charge in the transaction of the finish."""
    order = deeds.begin(request)
    time.sleep(order["takes_ms"] / 2000)
    deeds.charge_in_database(request, order)
    return {"charged": True}


def _charge(request: Request, order: dict[str, Any]) -> None:
    # With a key only where the declaration says that the counterparty knows it.
    is_keyed = DECLARED.in_doubt == "retry_same_key"
    (deeds.charge_once if is_keyed else deeds.charge)(request, order)


BODIES = {one.__name__: one for one in (marked, external, transactional)}

for kind in Kind:
    if kind not in DECLARED.removed:
        handler(topic=topic_of(TOPICS, kind), time_limit_s=TIME_LIMIT_S, **DECLARED.arguments())(
            BODIES[DECLARED.effect]
        )
