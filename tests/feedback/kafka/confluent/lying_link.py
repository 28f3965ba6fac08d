"""A link to a broker that lies about the records it has stored, or loses its answers."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import NamedTuple, Self

from onceward.servers.ports import HOST
from tests.eventually import HANG_S

CONNECT_LIMIT_S = 10.0
_PRODUCE = b"\x00\x00"
_NOT_LEADER, _TIMED_OUT, _TOO_LARGE, _AFTER_APPEND = 6, 7, 10, 20
# Answers of this version and later begin with tagged fields, and have compact lengths.
_FLEXIBLE, _WITH_TOPIC_IDS = 9, 13
LATE_S = 1.2


class Lie(Enum):
    """How a request that writes records is answered; `TRUE` is no lie."""

    TRUE = auto()
    # Nobody has stored it.
    CUT_BEFORE = auto()
    # All of these are stored.
    CUT_AFTER = auto()
    SILENCE = auto()
    LATE = auto()
    TIMED_OUT = auto()
    AFTER_APPEND = auto()
    RESIGNED = auto()
    RESIGNED_AND_REFUSED = auto()
    NO_OFFSET = auto()
    LOW_OFFSET = auto()
    # No lies either: both wait until `free` is set, and so does each later request to write.
    REQUEST_HELD = auto()
    ANSWER_HELD = auto()


_HELD = (Lie.REQUEST_HELD, Lie.ANSWER_HELD)
WEIGHTS: dict[Lie, float] = {
    **dict.fromkeys([one for one in Lie if one not in _HELD], 1.0),
    Lie.TRUE: 60,
    Lie.LATE: 2,
    Lie.SILENCE: 0.5,
}


class Answer(NamedTuple):
    """An answer about one partition, on one of the link's connections.

    Args:
        error: the broker's, as the offset is.
        told: the error and the offset that the client was told instead; None where it was told
            nothing.
    """

    wire: int
    partition: int
    lie: Lie
    error: int
    offset: int
    told: tuple[int, int] | None


@dataclass(slots=True)
class _Asked:
    lie: Lie
    version: int
    request: bytes


class _Wire:
    """One connection: what was asked, and the partitions of which a true offset was told."""

    def __init__(self, number: int, client: socket.socket, server: socket.socket) -> None:
        self.number, self.client, self.server = number, client, server
        self.asked: dict[bytes, _Asked] = {}
        self.true: set[bytes] = set()

    def cut(self) -> None:
        """Close both sides."""
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class LyingLink:
    """One port that leads to one broker.

    Args:
        upstream: host and port of the broker, up or not.

    Attributes:
        told: how often each answer was given.
        weights: how often each is to be given, beside the others.
        answers: all of them, in the order of each connection.
        holds: set when a request or an answer is held.
        free: set by a test, when it is held no longer.
        lapsed: set when one was held no longer before that.
    """

    def __init__(self, upstream: str, *, seed: int = 1) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self.told: Counter[Lie] = Counter()
        self.weights: dict[Lie, float] = {Lie.TRUE: 1}
        self.answers: list[Answer] = []
        self.holds, self.free, self.lapsed = (threading.Event() for _ in range(3))
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        # Bodies of requests that were stored, and whose next try is to be refused.
        self._refuse: set[bytes] = set()
        self._wires: list[_Wire] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.free.set()
        for wire in self._wires:
            wire.cut()
        for thread in self._threads:
            thread.join(CONNECT_LIMIT_S)
        self._listener.close()

    def _start(self, run: object, *given: object) -> None:
        thread = threading.Thread(target=run, args=given, name="lying-link")  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._upstream, CONNECT_LIMIT_S)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                wire = _Wire(len(self._wires), client, server)
                self._wires.append(wire)
                self._start(self._pass_on, wire, True)
                self._start(self._pass_on, wire, False)

    def _pass_on(self, wire: _Wire, is_request: bool) -> None:
        source = wire.client if is_request else wire.server
        with source, suppress(OSError):
            while (frame := _frame(source)) is not None:
                if is_request:
                    self._ask(wire, frame)
                else:
                    self._answer(wire, frame)
        wire.cut()

    def _ask(self, wire: _Wire, frame: bytes) -> None:
        if frame[:2] == _PRODUCE:
            asked = _Asked(self._lie(), int.from_bytes(frame[2:4]), frame)
            with self._lock:
                is_refused = frame[8:] in self._refuse
            if is_refused:
                asked.lie = Lie.RESIGNED_AND_REFUSED
            self.told[asked.lie] += 1
            wire.asked[frame[4:8]] = asked
            if asked.lie is Lie.CUT_BEFORE:
                wire.cut()
                return
            if asked.lie is Lie.REQUEST_HELD or self.holds.is_set():
                self._hold()
        _send(wire.server, frame)

    def _hold(self) -> None:
        self.holds.set()
        if not self.free.wait(HANG_S):
            self.lapsed.set()

    def _lie(self) -> Lie:
        with self._lock:
            lies = list(self.weights)
            return self._random.choices(lies, [self.weights[one] for one in lies])[0]

    def _answer(self, wire: _Wire, frame: bytes) -> None:
        asked = wire.asked.pop(frame[:4], None)
        if asked is None:
            _send(wire.client, frame)
            return
        true = frame
        match asked.lie:
            case Lie.CUT_AFTER:
                self._note(wire, asked, true, None)
                wire.cut()
                return
            case Lie.SILENCE:
                self._note(wire, asked, true, None)
                return
            case Lie.LATE:
                time.sleep(LATE_S)
            case Lie.REQUEST_HELD:
                pass
            case Lie.ANSWER_HELD:
                self._hold()
            case Lie.RESIGNED_AND_REFUSED:
                frame = self._resigned(asked, frame)
            case Lie.TRUE:
                # A refusal tells no offset.
                if not _said(frame, asked.version)[0]:
                    wire.true.add(_partition(frame, asked.version))
            case Lie.LOW_OFFSET if _partition(frame, asked.version) not in wire.true:
                # The first offset that a producer hears is all that is known of a partition.
                pass
            case lie:
                frame = _changed(frame, asked.version, lie)
        self._note(wire, asked, true, frame)
        _send(wire.client, frame)

    def _note(self, wire: _Wire, asked: _Asked, true: bytes, told: bytes | None) -> None:
        partition = int.from_bytes(_partition(true, asked.version))
        said = None if told is None else _said(told, asked.version)
        self.answers.append(
            Answer(wire.number, partition, asked.lie, *_said(true, asked.version), said)
        )

    def _resigned(self, asked: _Asked, frame: bytes) -> bytes:
        """Say that there is another leader, and of the next try that it is too large."""
        body = asked.request[8:]
        with self._lock:
            is_second = body in self._refuse
            self._refuse.add(body)
        return _with(frame, asked.version, _TOO_LARGE if is_second else _NOT_LEADER, -1)


def _changed(frame: bytes, version: int, lie: Lie) -> bytes:
    at = _error_at(frame, version)
    if int.from_bytes(frame[at : at + 2], signed=True):
        # A broker that stored nothing may be believed.
        return frame
    match lie:
        case Lie.TIMED_OUT:
            return _with(frame, version, _TIMED_OUT, -1)
        case Lie.AFTER_APPEND:
            return _with(frame, version, _AFTER_APPEND, -1)
        case Lie.RESIGNED:
            return _with(frame, version, _NOT_LEADER, -1)
        case Lie.NO_OFFSET:
            return _with(frame, version, 0, -1)
        case Lie.LOW_OFFSET:
            return _with(frame, version, 0, 0)
    return frame


def _partition(frame: bytes, version: int) -> bytes:
    at = _error_at(frame, version)
    return frame[at - 4 : at]


def _said(frame: bytes, version: int) -> tuple[int, int]:
    """Return the error and the offset of an answer."""
    at = _error_at(frame, version)
    error, offset = frame[at : at + 2], frame[at + 2 : at + 10]
    return int.from_bytes(error, signed=True), int.from_bytes(offset, signed=True)


def _with(frame: bytes, version: int, error: int, offset: int) -> bytes:
    at = _error_at(frame, version)
    said = error.to_bytes(2, signed=True) + offset.to_bytes(8, signed=True)
    return frame[:at] + said + frame[at + 10 :]


def _error_at(frame: bytes, version: int) -> int:
    """Return where the error of the one partition of an answer stands."""
    assert version >= _FLEXIBLE, version
    # Correlation id, tagged fields, one topic.
    assert frame[4:6] == b"\x00\x02"
    name_bytes = 16 if version >= _WITH_TOPIC_IDS else frame[6]
    at = 6 + name_bytes
    # One partition: its number stands before the error.
    assert frame[at : at + 1] == b"\x02", frame
    return at + 5


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    return None if head is None else _exactly(source, int.from_bytes(head))


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            return None
        found += part
    return bytes(found)


def _send(target: socket.socket, frame: bytes) -> None:
    target.sendall(len(frame).to_bytes(4) + frame)
