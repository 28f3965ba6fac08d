"""Why kafka-python could not reach a broker: it tries again until its time is over, and then says
only that.

It logs each try. Here they are heard, so that a wrong password or a certificate that is not trusted
is not told as a broker that is away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError

_LOGGER = "kafka.net.manager"


class Heard(logging.Handler):
    """Keeps why connections failed: the refusal of a login, else the last fault that was logged.

    A broker that refuses closes the connection at once, and of most tries only that is seen.

    Attributes:
        fault: None when there was none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the fault that a record tells of, when it does."""
        if isinstance(self.fault, SaslAuthenticationFailedError):
            return
        for one in record.args if isinstance(record.args, tuple) else ():
            if isinstance(one, Exception) and not isinstance(one, KafkaTimeoutError):
                self.fault = one


@contextmanager
def heard() -> Iterator[Heard]:
    """Hear what is logged of connections in the block, whatever the levels are; then as before."""
    logger, ear = logging.getLogger(_LOGGER), Heard()
    before = (logger.level, logger.propagate)
    # Nobody else's ears: what it means is said once, at the end.
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(ear)
    try:
        yield ear
    finally:
        logger.removeHandler(ear)
        logger.level, logger.propagate = before
