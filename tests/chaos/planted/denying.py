"""A worker that tells FAILED of some of what succeeded: their clients ask again, and pay twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

ONE_IN = 10


def plant() -> None:
    """Plant the fault in this process."""
    from feedback.redis.store import StatusStore
    from feedback.status import State
    from feedback.statuses import Refused, StatusWrite
    from tests.chaos.orders import hash_of

    write = StatusStore.write

    def write_failures(
        store: StatusStore, writes: Sequence[StatusWrite], **rest: Any
    ) -> list[Refused | None]:
        told = [
            one._replace(state=State.FAILED)
            if one.state is State.SUCCEEDED and hash_of(one.request_id) % ONE_IN == 0
            else one
            for one in writes
        ]
        return write(store, told, **rest)

    patch.object(StatusStore, "write", write_failures).start()


def main() -> None:
    """Run the command line of a worker."""
    from consumer.ops.commands import cli

    plant()
    cli()


if __name__ == "__main__":
    main()
