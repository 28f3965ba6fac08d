"""The FastStream application that is measured: its worker runs it, with a handler of its style.

Default settings, but for the group, which lets two workers share the topic, and the earliest
offset, without which a request that is sent before they have joined is never read.
"""

from __future__ import annotations

import os
from typing import Any

from faststream import FastStream  # type: ignore[import-not-found]
from faststream.kafka import KafkaBroker  # type: ignore[import-not-found]

from tests.bench.plan import TOPIC_VARIABLE

TOPIC = os.environ[TOPIC_VARIABLE]

broker = KafkaBroker(os.environ["BENCH_KAFKA"])
app = FastStream(broker)


async def _noop(payload: dict[str, Any]) -> None:
    """Do nothing."""


noop = broker.subscriber(TOPIC, group_id=TOPIC, auto_offset_reset="earliest")(_noop)
