"""A resender that sends what FAILED again, though its client was told so and has gone on."""

from __future__ import annotations

import sys
import time

from feedback.settings.settings import load
from feedback.status import State
from producer_client import Client, Status

LOOK_EVERY_S = 0.5


def revive_on(client: Client) -> None:
    """Send again whatever failed in a way that a resend may mend, each once; for ever."""
    revived: set[str] = set()
    pattern = client.store.request_key("*").replace("{*}", "{*")
    while True:
        for key in client.store.redis.scan_iter(pattern, count=1_000):
            request_id = key.decode().rpartition("{")[2].rstrip("}")
            status = client.status(request_id)
            if request_id not in revived and _may_be_sent_again(status):
                revived.add(request_id)
                payload = client.store.kept_payload(request_id)
                if payload is not None:
                    client.resend(request_id, payload, known=status)
        time.sleep(LOOK_EVERY_S)


def _may_be_sent_again(status: Status) -> bool:
    return status.state is State.FAILED and status.resend


def main() -> None:
    """Run as `onceward-client resend --config FILE` does."""
    with Client(load(sys.argv[sys.argv.index("--config") + 1])) as client:
        revive_on(client)


if __name__ == "__main__":
    main()
