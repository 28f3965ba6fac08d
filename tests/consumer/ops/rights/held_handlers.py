"""A marked handler whose effect takes a while, and which writes down each of its effects."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from consumer import Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))
EFFECTS = "effects.txt"


@handler(topic=_TOPICS.get("pay", "pay"), effect="marked", outcome_topic=_TOPICS.get("outcomes"))
def pay(request: Request) -> str:
    """Write its id within an effect that stays open for a second."""
    time.sleep(0.2)
    with request.effect():
        line = os.open(
            Path(os.environ["TEST_FOLDER"]) / EFFECTS, os.O_APPEND | os.O_CREAT | os.O_WRONLY
        )
        os.write(line, f"{request.request_id}\n".encode())
        os.close(line)
        time.sleep(1.0)
    return "paid"
