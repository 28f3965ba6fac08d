"""The README's example of an HTTP interface, as it stands there."""

# example:begin
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Response
from pydantic import BaseModel

from onceward import (
    AsyncClient,
    InvalidMessage,
    NotSent,
    PayloadMismatch,
    RedisUnavailable,
    SendUnknown,
    State,
)

RETRY_SOON = {"Retry-After": "1"}
OPEN = {State.PENDING, State.ACCEPTED, State.RUNNING, State.RETRYING, State.LOST}


class Payment(BaseModel):
    card: str
    amount: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient("onceward.toml") as app.state.client:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/payments", status_code=202)
async def pay(
    payment: Payment,
    response: Response,
    idempotency_key: Annotated[str, Header(pattern=r"^[A-Za-z0-9_-]{1,128}$")],
) -> dict[str, str]:
    client: AsyncClient = app.state.client
    try:
        # The front-end names what is paid (order-7), and that is the request's id: posted twice,
        # by whoever, it is paid once.
        sent = await client.send(
            payment.model_dump(), key=payment.card, topic="payments", request_id=idempotency_key
        )
    except SendUnknown as unknown:
        # It may be on its way, or nowhere: posted again under this key, it is paid once.
        again = {"Retry-After": "5", "Idempotency-Key": unknown.request_id}
        raise HTTPException(
            503, "unknown: post it again under this key", headers=again
        ) from unknown
    except NotSent as error:
        raise HTTPException(503, "not sent: try again", headers={"Retry-After": "5"}) from error
    except PayloadMismatch as error:
        raise HTTPException(409, "this Idempotency-Key was another payment's") from error
    except InvalidMessage as error:
        raise HTTPException(400, str(error)) from error
    response.headers["Location"] = f"/payments/{sent.request_id}"
    response.headers.update(RETRY_SOON)
    return {"id": sent.request_id}


@app.get("/payments/{request_id}")
async def outcome(request_id: str, response: Response) -> dict[str, Any]:
    client: AsyncClient = app.state.client
    try:
        status = await client.status(request_id)
    except RedisUnavailable as error:
        raise HTTPException(503, "ask again", headers={"Retry-After": "5"}) from error
    if status.state is State.UNKNOWN:
        raise HTTPException(404, "no such payment")
    if status.state in OPEN:
        response.headers.update(RETRY_SOON)
    # Any other state is over, FAILED too: it runs again only if it is posted under its key again.
    return {"id": request_id, "state": status.state, "code": status.code, "result": status.result}


# example:end
