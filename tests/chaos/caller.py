"""A program of its own that sends orders in an unusual place, and says in lines what it was told.

`python -m tests.chaos.caller WAY SETTINGS ROW SEED FIRST COUNT [OUTBOX]`. The rows of `callers`
read the lines (`Said`) and have the clients pursue the orders from there on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from feedback.clock import monotonic_s
from feedback.errors import NotSent, OncewardError, SendUnknown
from feedback.settings.settings import load
from producer_client import Client
from tests.chaos.clients import submission_of
from tests.chaos.orders import Order, OrderBook

FORKS = 4


@dataclass(frozen=True, slots=True)
class Said:
    """What a caller was told of one order.

    Attributes:
        number: of the order.
        told: "sent", the name of the error, or "began" before the send.
    """

    number: int
    told: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    way: str
    settings: str
    row: str
    seed: int
    first: int
    count: int
    topics: str
    outbox: str | None

    @classmethod
    def of(cls, words: Sequence[str]) -> Asked:
        """Return it."""
        way, settings, row, seed, first, how_many, topics, *outbox = words
        return cls(
            way,
            settings,
            row,
            int(seed),
            int(first),
            int(how_many),
            topics,
            outbox[0] if outbox else None,
        )

    def client(self) -> Client:
        """Return a new client."""
        return Client(load(self.settings), outbox=self.outbox)

    def numbers(self) -> range:
        """Return the numbers of the orders."""
        return range(self.first, self.first + self.count)

    def order(self, number: int) -> Order:
        """Return an order."""
        return OrderBook(self.row, self.seed).order(number)


def main(words: Sequence[str]) -> None:
    """Send as the way says."""
    asked = Asked.of(words)
    WAYS[asked.way](asked)


def all_at_once(asked: Asked) -> None:
    """Send each order in a thread of its own."""
    with asked.client() as client, ThreadPoolExecutor(asked.count) as threads:
        for done in [threads.submit(_send, asked, client, one) for one in asked.numbers()]:
            done.result()


def unused_before_forks(asked: Asked) -> None:
    """Make a client, use it for nothing, and send in children."""
    _fork(asked, asked.client())


def used_before_forks(asked: Asked) -> None:
    """Make a client, send the first order by it, and the others in children."""
    client = asked.client()
    _send(asked, client, asked.first)
    _fork(asked, client)


def _fork(asked: Asked, client: Client) -> None:
    children = []
    left = list(asked.numbers())[1:] if asked.way == "used" else list(asked.numbers())
    for child in range(FORKS):
        pid = os.fork()
        if pid == 0:
            _in_child(asked, client, left[child::FORKS])
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    os._exit(0)


def _in_child(asked: Asked, client: Client, numbers: Sequence[int]) -> None:
    for number in numbers:
        if not _send(asked, client, number):
            # It was said what to do: one for each process.
            client = asked.client()
            _send(asked, client, number)
    os._exit(0)


def _send(asked: Asked, client: Client, number: int) -> bool:
    """Send one order and say what was told; whether that was a word about the order."""
    order = asked.order(number)
    sent = submission_of(order, asked.topics)
    _say(number, "began")
    try:
        client.send(sent.value, key=sent.key, topic=sent.topic, request_id=sent.request_id)
    except (NotSent, SendUnknown) as error:
        _say(number, type(error).__name__)
    except OncewardError as error:
        _say(number, f"refused: {error}")
        return False
    except Exception as error:  # the row shall see what came out of a send
        _say(number, f"raw {type(error).__name__}")
    else:
        _say(number, "sent")
    return True


def _say(number: int, told: str) -> None:
    line = json.dumps(asdict(Said(number, told, monotonic_s()))) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


WAYS: dict[str, Callable[[Asked], None]] = {
    "at-once": all_at_once,
    "unused": unused_before_forks,
    "used": used_before_forks,
}


if __name__ == "__main__":
    main(sys.argv[1:])
