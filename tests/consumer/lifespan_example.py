"""The README's example of clients and pools that the runs of a child share, as it stands there."""

# example:begin
import os
from collections.abc import AsyncIterator, Iterator

import httpx
from sqlalchemy import Engine, create_engine, text

from onceward import Request, handler, lifespan


@lifespan
async def bank() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=os.environ["BANK_URL"], timeout=20) as client:
        yield client


@lifespan
def shop() -> Iterator[Engine]:
    engine = create_engine(os.environ["SHOP_URL"])
    yield engine
    engine.dispose()


@handler(topic="payments", effect="marked")
async def charge(request: Request) -> None:
    key = {"Idempotency-Key": request.idempotency_key}
    async with request.effect():
        answer = await bank.value.post("/charge", json=request.json(), headers=key)
    answer.raise_for_status()


@handler(topic="orders", in_doubt="retry_same_key")
def store(request: Request) -> None:
    with shop.value.begin() as connection:
        insert = "INSERT INTO orders (id) VALUES (:id) ON CONFLICT DO NOTHING"
        connection.execute(text(insert), {"id": request.idempotency_key})


# example:end
