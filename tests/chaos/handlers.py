"""The handlers of the load, one of each declaration; what they do stands in the order."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from sqlalchemy import text

from consumer import Rejected, Request, handler
from tests.chaos.banking import BankConnection
from tests.chaos.orders import Deed, Kind, topic_of

TOPICS = os.environ["CHAOS_TOPICS"]
BANK = os.environ["CHAOS_BANK"]
TIME_LIMIT_S = float(os.environ["CHAOS_TIME_LIMIT_S"])
FOR_EVER_S = 3600.0

_local = threading.local()


def _bank() -> BankConnection:
    """Return this thread's connection; a child is killed with it."""
    if not hasattr(_local, "connection"):
        _local.connection = BankConnection(BANK)
    connection: BankConnection = _local.connection
    return connection


def _begin(request: Request) -> dict[str, Any]:
    """Tell the bank who runs what, and work until the charge is due."""
    order: dict[str, Any] = request.json()
    _bank().tell("begin", request.request_id, os.getpid())
    if order["gate"]:
        _bank().ask("wait", order["gate"])
    _misbehave(order, hang=Deed.HANG, die=Deed.DIE)
    time.sleep(order["takes_ms"] / 2000)
    if order["deed"] == Deed.REJECT:
        raise Rejected("NO_FUNDS", "the account is empty")
    return order


def _misbehave(order: dict[str, Any], *, hang: Deed, die: Deed) -> None:
    if order["deed"] == hang:
        time.sleep(FOR_EVER_S)
    if order["deed"] == die:
        os.kill(os.getpid(), signal.SIGKILL)


def _inside(order: dict[str, Any]) -> None:
    _misbehave(order, hang=Deed.HANG_INSIDE, die=Deed.DIE_INSIDE)


def _end(order: dict[str, Any]) -> dict[str, Any]:
    time.sleep(order["takes_ms"] / 2000)
    return {"charged": True}


@handler(
    topic=topic_of(TOPICS, Kind.MARKED),
    effect="marked",
    in_doubt="park",
    time_limit_s=TIME_LIMIT_S,
)
def marked(request: Request) -> Any:
    """Charge within the effect."""
    order = _begin(request)
    with request.effect():
        _inside(order)
        _bank().ask("charge", request.request_id)
    return _end(order)


@handler(topic=topic_of(TOPICS, Kind.EXTERNAL), in_doubt="park", time_limit_s=TIME_LIMIT_S)
def external(request: Request) -> Any:
    """Charge at some time of the run."""
    order = _begin(request)
    _inside(order)
    _bank().ask("charge", request.request_id)
    return _end(order)


@handler(topic=topic_of(TOPICS, Kind.KEYED), in_doubt="retry_same_key", time_limit_s=TIME_LIMIT_S)
def keyed(request: Request) -> Any:
    """Charge by the idempotency key, so that the bank charges once however often it is asked."""
    order = _begin(request)
    _inside(order)
    _bank().ask("charge-once", request.request_id, request.idempotency_key)
    return _end(order)


@handler(
    topic=topic_of(TOPICS, Kind.TRANSACTIONAL),
    effect="transactional",
    time_limit_s=TIME_LIMIT_S,
)
def transactional(request: Request) -> Any:
    """Charge by a row in the journal's database; without a unique key, a second would show."""
    order = _begin(request)
    _inside(order)
    # All work comes before: on SQLite the write holds the one lock until the end.
    time.sleep(order["takes_ms"] / 2000)
    request.connection.execute(
        text("INSERT INTO chaos_charge (request_id) VALUES (:id)"), {"id": request.request_id}
    )
    return {"charged": True}
