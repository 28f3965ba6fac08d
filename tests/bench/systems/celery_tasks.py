"""The Celery application that is measured; imported by its worker and by the submitting process.

Default settings, but for what names the two databases of Redis.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery  # type: ignore[import-not-found]

app = Celery("bench", broker=os.environ["BENCH_BROKER"], backend=os.environ["BENCH_RESULTS"])


def _noop(payload: dict[str, Any]) -> None:
    """Do nothing."""


noop = app.task(_noop, name="bench.noop")
