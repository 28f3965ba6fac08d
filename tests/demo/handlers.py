"""The handler of the demo: what a user writes, and all of it."""

import os
from typing import Any

import requests

from onceward import Request, handler

TOPIC = os.environ["DEMO_TOPIC"]
BANK = os.environ["DEMO_BANK"]


@handler(topic=TOPIC, effect="marked", in_doubt="park", time_limit_s=30)
def charge(request: Request) -> Any:
    """Charge one payment; nothing before the `with` can be in doubt."""
    payment = request.json()
    headers = {"Idempotency-Key": request.idempotency_key, "X-Request-Id": request.request_id}
    with request.effect():
        answer = requests.post(f"http://{BANK}/charge", json=payment, headers=headers, timeout=20)
        answer.raise_for_status()
    return answer.json()
