"""The load on the front door: which answers are wrong, and from when each is timed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.bench.http.connections import Address, Reply, Stream, get
from tests.bench.http.load import closed_loop, open_loop, opened
from tests.bench.http.readings import Readings
from tests.bench.http.submissions import Submissions


def reply(status: int, document: object = None, **headers: str) -> Reply:
    lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in headers.items())]
    return Reply(status, "\r\n".join(lines).encode(), json.dumps(document).encode())


def seen(state: str, tag: str) -> Reply:
    return reply(200, {"request_id": "a", "state": state}, etag=tag)


def wrong_of(*replies: Reply | None) -> int:
    """Return how many of these answers of one lane are wrong; None: the request changes."""
    readings = Readings(["a"])
    for one in replies:
        if one is None:
            readings.changed(0)
        else:
            readings.message(0)
            readings.judge(0, one)
    return readings.wrong


PENDING, ACCEPTED = seen("PENDING", '"1"'), seen("ACCEPTED", '"2"')
SAME, SAME_NEW = reply(304, etag='"1"'), reply(304, etag='"2"')


def test_a_lane_that_sees_its_change_has_no_wrong_answer() -> None:
    assert wrong_of(PENDING, SAME, None, ACCEPTED, SAME_NEW) == 0
    # The change may be seen before the writer of the change knows that it is written.
    assert wrong_of(PENDING, SAME, ACCEPTED, None, SAME_NEW) == 0


@pytest.mark.parametrize(
    "replies",
    [
        (PENDING, None, SAME),
        (PENDING, None, PENDING),
        (PENDING, PENDING),
        (PENDING, SAME_NEW),
        (SAME,),
        (PENDING, seen("RUNNING", '"2"')),
        (PENDING, None, ACCEPTED, SAME),
        (PENDING, None, ACCEPTED, ACCEPTED),
        (reply(200, {"request_id": "b", "state": "PENDING"}, etag='"1"'),),
        (reply(503),),
    ],
)
def test_an_answer_that_differs_from_the_status_is_wrong(replies: tuple[Reply | None]) -> None:
    assert wrong_of(*replies) == 1


def test_a_read_that_began_before_the_change_may_show_the_old_status() -> None:
    readings = Readings(["a"])
    readings.message(0)
    readings.judge(0, PENDING)
    readings.message(0)
    readings.changed(0)
    readings.judge(0, SAME)
    assert (readings.wrong, readings.unseen) == (0, 1)


def test_a_202_counts_as_accepted_only_under_the_id_of_its_key() -> None:
    submissions = Submissions("payments")
    for lane in range(4):
        submissions.message(lane)
    (mine, *_) = (submissions._asked[lane] for lane in range(4))
    document, place = {"request_id": mine, "state": "PENDING"}, f"/v1/requests/{mine}"
    submissions.judge(0, reply(202, document, location=place))
    submissions.judge(1, reply(202, document, location=place))
    submissions.judge(2, reply(503))
    assert submissions.accepted == [mine]
    assert submissions.wrong == 2
    later = submissions._asked[3]
    headers = {"location": f"/v1/requests/{later}", "idempotent-replayed": "true"}
    submissions.judge(3, reply(202, {"request_id": later, "state": "PENDING"}, **headers))
    assert submissions.wrong == 3


def test_events_are_read_from_chunks_that_are_cut_anywhere() -> None:
    async def states() -> list[str]:
        stream = Stream("a")
        event = 'id: "1"\nevent: status\ndata: {"request_id": "%s", "state": "%s"}\n\n'
        parts = ("retry: 1000\n\n", event % ("a", "PENDING"), ":\n\n", event % ("b", "RUNNING"))
        chunks = "".join(f"{len(part):x}\r\n{part}\r\n" for part in parts)
        text = f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}".encode()
        for at in range(0, len(text), 7):
            stream.data_received(text[at : at + 7])
        return stream.states

    assert asyncio.run(states()) == ["PENDING", "of another request"]


class Counting:
    """Asks always the same."""

    def __init__(self) -> None:
        self.answers = 0

    def message(self, lane: int) -> bytes:
        return get("/")

    def judge(self, lane: int, reply: Reply) -> None:
        assert (reply.status, reply.body) == (200, b"yes")
        self.answers += 1


async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        await asyncio.sleep(0.3)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ny")
        await asyncio.sleep(0)
        writer.write(b"es")
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def slow() -> AsyncIterator[Address]:
    """Yield the address of a server that takes 0.3 s for an answer, and sends it in two parts."""
    ended: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.add(asyncio.current_task())  # type: ignore[arg-type]
        await slowly(reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[:2]
        await asyncio.gather(*ended)


def test_a_question_that_waits_for_a_connection_is_timed_from_when_it_was_due() -> None:
    async def took_ms() -> list[float]:
        async with slow() as address, opened(address, 1) as connections:
            # Those of the first second are asked and not timed.
            timed = await open_loop(connections, asking, rate_per_s=5, seconds=1.6)
        return timed.took_ms

    asking = Counting()
    took = asyncio.run(took_ms())
    assert (asking.answers, len(took)) == (8, 3)
    # The sixth, due after 1 s, is answered after 6 times 0.3 s.
    assert took[0] >= 700
    assert took == sorted(took)


def test_a_lane_asks_again_when_it_has_its_answer() -> None:
    async def counted() -> int:
        async with slow() as address, opened(address, 2) as connections:
            timed = await closed_loop(connections, asking, lambda: asking.answers < 3)
        assert min(timed.took_ms) >= 290
        return len(timed.took_ms)

    asking = Counting()
    assert asyncio.run(counted()) == asking.answers == 4
