"""Handlers of a service in memory."""

import asyncio
import os
from collections.abc import Iterator

from sqlalchemy import text

from onceward import Rejected, Request, handler, lifespan
from onceward.testing import Counterparty

bank = Counterparty(idempotent=True)


@lifespan
def shift() -> Iterator[int]:
    yield 100


@handler(topic="served-payments", effect="marked", in_doubt="retry_same_key")
def charge(request: Request) -> dict[str, object]:
    with request.effect():
        bank.call(request.idempotency_key)
    return {"paid": request.json()["amount"], "pid": os.getpid()}


@handler(topic="served-doubts", effect="marked")
def charge_once(request: Request) -> None:
    with request.effect():
        bank.call(request.idempotency_key)


@handler(topic="served-refused", outcome_topic="served-outcomes")
def refuse(request: Request) -> None:
    raise Rejected("BAD", "it is bad")


@handler(topic="served-ordered", order="key")
async def in_order(request: Request) -> int:
    await asyncio.sleep(0)
    return shift.value + int(request.json())


@handler(topic="served-booked", effect="transactional")
def book(request: Request) -> int:
    return int(request.connection.execute(text("SELECT 7")).scalar_one())
