"""What tasks ask at the same time is one call, and nobody is left without one."""

import asyncio
from collections.abc import Sequence

from feedback.grouped import AT_A_TIME, Grouped


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


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_asked_while_calls_are_under_way_goes_together() -> None:
    async def main() -> None:
        server = Server()
        grouped = Grouped(server.call)
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
        grouped = Grouped(server.call)

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
