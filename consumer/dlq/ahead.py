"""Makes the next item while this one is in use."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterator[Item]) -> Generator[Item]:
    """Yield the same items; each is made in a thread of its own while the one before is in use.

    At most one item is made ahead. A caller that stops early closes this iterator, which waits for
    the item that is being made. An error of `items` is raised here, in its turn.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        coming = pool.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]
