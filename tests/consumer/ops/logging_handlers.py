"""A handler that logs a line at each level, for the worker under test."""

import json
import logging
import os

from consumer import Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))
_LOGGER = logging.getLogger("shop")

if "logging" in _TOPICS:

    @handler(topic=_TOPICS["logging"], effect="external")
    def speaking(request: Request) -> None:
        """Log a line at each level, the most severe one last."""
        for level in (10, 20, 30, 40, 50):
            _LOGGER.log(level, "spoken")
