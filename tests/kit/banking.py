"""Speaking to the bank: a connection for each thread, and the account at the end.

Imported in every child that runs handlers, so nothing heavy is imported here.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ANSWER_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Begin:
    """A handler began a run.

    Attributes:
        pid: of the child that runs it.
        at_s: monotonic, the same clock in all processes of a host.
    """

    request_id: str
    pid: int
    at_s: float


class Charge(NamedTuple):
    """That an order was charged by a request, so many times."""

    order: str
    request_id: str
    times: int


@dataclass(frozen=True, slots=True)
class BankAccount:
    """All that the bank knows: what was charged, and the runs that were begun."""

    charges: tuple[Charge, ...]
    begins: tuple[Begin, ...]

    def by_order(self) -> dict[str, int]:
        """Return how often each order was charged, by whatever requests.

        >>> charges = Charge("order-7", "order-7", 1), Charge("order-7", "order-7.2", 1)
        >>> BankAccount(charges, ()).by_order()
        {'order-7': 2}
        """
        return _summed((one.order, one.times) for one in self.charges)

    def by_request(self) -> dict[str, int]:
        """Return how often each request charged."""
        return _summed((one.request_id, one.times) for one in self.charges)


def _summed(counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for name, times in counted:
        total[name] += times
    return dict(total)


class BankConnection:
    """One connection to the bank; belongs to one thread.

    Args:
        address: host and port.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def tell(self, *words: object) -> None:
        """Say something that has no answer."""
        self._socket.sendall(" ".join(map(str, words)).encode() + b"\n")

    def ask(self, *words: object) -> str:
        """Say something and return the answer.

        Raises:
            OSError: no answer came.
        """
        self.tell(*words)
        answer = self._answers.readline()
        if not answer:
            raise ConnectionError("the bank has closed")
        return answer.decode().rstrip("\n")

    def close(self) -> None:
        """Leave."""
        self._answers.close()
        self._socket.close()


def account_of(address: str) -> BankAccount:
    """Return the account of the bank at `address`.

    Raises:
        OSError: it does not answer.
    """
    connection = BankConnection(address)
    try:
        said = json.loads(connection.ask("account"))
    finally:
        connection.close()
    return BankAccount(
        tuple(Charge(*charge) for charge in said["charges"]),
        tuple(Begin(*begin) for begin in said["begins"]),
    )
