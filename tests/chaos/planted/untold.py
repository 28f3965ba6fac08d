"""A worker that takes some final statuses for told that it never wrote: no sweep repairs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

ONE_IN = 10


def plant() -> None:
    """Plant the fault in this process."""
    from feedback.redis.store import StatusStore
    from feedback.status import FINAL
    from feedback.statuses import Refused, StatusWrite
    from tests.chaos.orders import hash_of

    write = StatusStore.write

    def write_most(
        store: StatusStore, writes: Sequence[StatusWrite], **rest: Any
    ) -> list[Refused | None]:
        kept = [one for one in writes if one.state not in FINAL or hash_of(one.request_id) % ONE_IN]
        refusals = dict(zip([id(one) for one in kept], write(store, kept, **rest), strict=True))
        return [refusals.get(id(one)) for one in writes]

    patch.object(StatusStore, "write", write_most).start()


def main() -> None:
    """Run the command line of a worker."""
    from consumer.ops.commands import cli

    plant()
    cli()


if __name__ == "__main__":
    main()
