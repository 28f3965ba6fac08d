"""A command that lacks something says so in words: a stranger has no use for a stack."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from feedback.errors import NotAvailable


@contextmanager
def in_words() -> Iterator[None]:
    """End this process by 1 with what an error in the block says, if it is one of these."""
    try:
        yield
    except NotAvailable as error:
        sys.exit(str(error))
