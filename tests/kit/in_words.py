"""A command that lacks something says so in words: a stranger has no use for a stack."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from feedback.errors import NotAvailable


@contextmanager
def in_words() -> Iterator[None]:
    """End this process by 1 with what an error in the block says, if it is one of these.

    At SIGTERM it ends as well, and takes along the command that it runs and its half a folder.
    """
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    except NotAvailable as error:
        sys.exit(str(error))


def _terminated(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
