"""What tasks ask at the same time is one call, and nobody is left without one."""

import asyncio
from collections.abc import Sequence

import pytest

from feedback.errors import RedisRefused, RedisUnavailable
from feedback.redis.request_coalescing import AT_A_TIME, GROUP, GROUP_BYTES, CoalescedCalls


class Server:
    """Answers calls when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Sequence[int]] = []
        self.gates: list[asyncio.Future[None]] = []

    async def call(self, items: Sequence[int]) -> list[int]:
        self.asked.append(items)
        self.gates.append(asyncio.get_running_loop().create_future())
        await self.gates[-1]
        return [-item for item in items]

    def answer(self) -> None:
        for gate in self.gates:
            if not gate.done():
                gate.set_result(None)


def grouped_of(
    server: Server, *, limit_s: float = 30, item_bytes: int = 1
) -> CoalescedCalls[int, int]:
    return CoalescedCalls(server.call, size_of=lambda _: item_bytes, limit_s=limit_s)


async def fill(grouped: CoalescedCalls[int, int]) -> list[asyncio.Task[list[int]]]:
    """Begin as many calls as are under way at a time."""
    tasks = []
    for number in range(AT_A_TIME):
        tasks.append(asyncio.create_task(grouped([number])))
        await turns()
    return tasks


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_asked_while_calls_are_under_way_goes_together() -> None:
    async def main() -> None:
        server = Server()
        grouped = grouped_of(server)
        tasks = [asyncio.create_task(grouped([number])) for number in range(AT_A_TIME + 3)]
        await turns()
        server.answer()
        await turns()
        server.answer()
        assert await asyncio.gather(*tasks) == [[-number] for number in range(AT_A_TIME + 3)]
        assert sorted(map(len, server.asked)) == [1] * (len(server.asked) - 1) + [
            AT_A_TIME + 3 - (len(server.asked) - 1)
        ]

    asyncio.run(main())


def test_who_asks_in_the_turn_in_which_all_calls_ended_is_answered() -> None:
    async def main() -> None:
        server = Server()
        grouped = grouped_of(server)

        async def twice() -> list[int]:
            await grouped([1])
            return await grouped([2])

        first = asyncio.create_task(twice())
        others = []
        for number in range(AT_A_TIME - 1):
            await turns()
            others.append(asyncio.create_task(grouped([number])))
        await turns()
        assert len(server.gates) == AT_A_TIME
        server.answer()  # all of them in one turn of the loop
        await turns()
        server.answer()
        async with asyncio.timeout(10):
            assert await first == [-2]
            await asyncio.gather(*others)

    asyncio.run(main())


def test_nobody_waits_past_the_limit_for_calls_that_hang() -> None:
    async def main() -> None:
        server = Server()
        grouped = grouped_of(server, limit_s=0.1)
        tasks = await fill(grouped)
        tasks += [asyncio.create_task(grouped([number])) for number in range(3)]
        async with asyncio.timeout(10):
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, RedisUnavailable) for one in ended)
        reached = [isinstance(one, RedisUnavailable) and one.never_reached for one in ended]
        assert reached == [False] * AT_A_TIME + [True] * 3
        # What was given up before it began is never asked, and the next is answered.
        last = asyncio.create_task(grouped([7]))
        await turns()
        server.answer()
        await turns()
        server.answer()
        assert await last == [-7]
        assert [list(items) for items in server.asked] == [[n] for n in range(AT_A_TIME)] + [[7]]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("item_bytes", "most"), [(1, GROUP), (GROUP_BYTES // 10, 10), (2 * GROUP_BYTES, 1)]
)
def test_a_group_is_bounded_in_items_and_in_bytes(item_bytes: int, most: int) -> None:
    async def main() -> None:
        server = Server()
        grouped = grouped_of(server, item_bytes=item_bytes)
        tasks = await fill(grouped)
        count = 2 * most + 1
        tasks += [asyncio.create_task(grouped([number])) for number in range(count)]
        while not all(task.done() for task in tasks):
            await turns()
            server.answer()
        ended = [task.result() for task in tasks[AT_A_TIME:]]
        assert ended == [[-number] for number in range(count)]
        sizes = [len(items) for items in server.asked[AT_A_TIME:]]
        assert max(sizes) == most
        assert sum(sizes) == count

    asyncio.run(main())


def test_what_a_refused_call_may_have_written_is_never_said_not_to_have_reached_redis() -> None:
    async def main() -> None:
        calls = 0

        async def call(items: Sequence[int]) -> list[int]:
            nonlocal calls
            calls += 1
            if len(items) > 1:
                raise RedisRefused("the second of them has another type of value")
            raise RedisUnavailable("refused", never_reached=calls > AT_A_TIME)

        grouped = CoalescedCalls(call, size_of=lambda _: 1, limit_s=30)
        tasks = [asyncio.create_task(grouped([number])) for number in range(AT_A_TIME + 2)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, RedisUnavailable) for one in found)
        assert [one.never_reached for one in found if isinstance(one, RedisUnavailable)] == [
            False
        ] * len(tasks)
        assert calls > AT_A_TIME

    asyncio.run(main())
