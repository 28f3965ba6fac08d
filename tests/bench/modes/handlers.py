"""The handler that is measured: it asks the counterparty to authorise an operation.

A plain function, in the threads of a child, with a connection for each thread that stays open, as
somebody would write it with the standard library. Delivery, topic and counterparty are chosen for
each measurement and read from the environment, which workers and children inherit.
"""

from __future__ import annotations

import json
import os
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any

from consumer import Request, handler
from consumer.handlers.declaration import DeliveryKind
from tests.bench.modes.mode import Mode
from tests.bench.plan import TOPIC_VARIABLE

MODE_VARIABLE = "BENCH_MODE"
COUNTERPARTY_VARIABLE = "BENCH_COUNTERPARTY"
TIMEOUT_S = 90.0


_MODE = Mode(os.environ.get(MODE_VARIABLE, Mode.AT_MOST_ONCE))
_local = threading.local()


# Effect external: the call is all there is to a run. At most once, what a crash interrupts is
# parked; the others run it again, so their counterparty has to know it again by its key.
@handler(
    topic=os.environ.get(TOPIC_VARIABLE, "bench"),
    delivery=DeliveryKind(_MODE),
    effect="external",
    in_doubt="park" if _MODE is Mode.AT_MOST_ONCE else "retry_same_key",
)
def authorise(request: Request) -> Any:
    """Ask, and return the answer."""
    connection = _connection()
    headers = {"Content-Type": "application/json", "Idempotency-Key": request.idempotency_key}
    try:
        connection.request("POST", "/authData", request.value, headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException):
        connection.close()  # the next request of this thread opens it anew
        raise
    if answer.status != 200:
        raise HTTPException(f"the counterparty answered {answer.status}")
    return json.loads(body)


def _connection() -> HTTPConnection:
    if not hasattr(_local, "connection"):
        address = os.environ[COUNTERPARTY_VARIABLE]
        _local.connection = HTTPConnection(address, timeout=TIMEOUT_S)
    connection: HTTPConnection = _local.connection
    return connection
