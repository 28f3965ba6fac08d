"""A process that makes a client, forks, and lets each child send: what each child was told."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial

from producer_client import Client

CHILDREN = 2


def main(use: str, outbox: str) -> None:
    """Print a line of JSON for each child.

    Args:
        use: "used" when the client sends before the fork.
        outbox: the URL of the client's own outbox; empty for none.
    """
    client = Client(outbox=outbox or None)
    if use == "used":
        client.send(b"v")
    reading, writing = os.pipe()
    children = [_child(client, number, writing) for number in range(CHILDREN)]
    for child in children:
        os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        sys.stdout.write(told.read())
    client.close()


def _child(client: Client, number: int, writing: int) -> int:
    child = os.fork()
    if child == 0:
        sends: list[Callable[[], object]] = [
            partial(client.send, b"v", request_id=f"{number}-{at}") for at in (1, 2)
        ]
        told = [_told(one) for one in [*sends, client.close]]
        os.write(writing, f"{json.dumps(told)}\n".encode())
        os._exit(0)
    return child


def _told(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # what the caller is told, whatever it is
        return type(error).__name__
    return "fine"


if __name__ == "__main__":
    main(*sys.argv[1:])
