"""A worker that tells SUCCEEDED of what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch


def plant() -> None:
    """Plant the fault in this process."""
    from feedback.redis.store import StatusStore
    from feedback.status import State
    from feedback.statuses import Refused, StatusWrite

    write = StatusStore.write

    def write_success(
        store: StatusStore, writes: Sequence[StatusWrite], **rest: Any
    ) -> list[Refused | None]:
        told = [
            one._replace(state=State.SUCCEEDED) if one.state is State.FAILED else one
            for one in writes
        ]
        return write(store, told, **rest)

    patch.object(StatusStore, "write", write_success).start()


def main() -> None:
    """Run the command line of a worker."""
    from consumer.ops.commands import cli

    plant()
    cli()


if __name__ == "__main__":
    main()
