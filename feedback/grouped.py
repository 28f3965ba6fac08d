"""Calls that tasks make at the same time, made as one: a thousand tasks, a few round trips.

While calls are under way, what is asked meanwhile gathers for the next; so a call alone is made at
once, and many share one the more of them there are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from feedback.errors import RedisRefused

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# As many items as one call carries at most, and calls under way at a time.
GROUP = 128
AT_A_TIME = 4


class Grouped(Generic[Item, Answer]):
    """One call for the items of many. Belongs to one loop.

    Args:
        call: gives the answers in the order of the items.
    """

    def __init__(self, call: Callable[[Sequence[Item]], Awaitable[list[Answer]]]) -> None:
        self._call = call
        self._waiting: deque[tuple[Sequence[Item], asyncio.Future[list[Answer]]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, items: Sequence[Item]) -> list[Answer]:
        """Return the answers to these items.

        A task that is cancelled takes nothing back of what is under way; see `settled`.

        Raises:
            Exception: what the call that carried them raised.
        """
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answers))
        if len(self._under_way) < AT_A_TIME:
            task = asyncio.create_task(self._run(), name="onceward-grouped")
            self._under_way.add(task)
        return await answers

    async def settled(self) -> None:
        """Return when what is under way now has ended, and nobody's cancelled call with it."""
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def _run(self) -> None:
        try:
            while group := self._next():
                await self._answer(group)
        finally:
            # In the same turn in which nothing was left: who asks after it begins a call anew.
            self._under_way -= {asyncio.current_task()}

    def _next(self) -> list[tuple[Sequence[Item], asyncio.Future[list[Answer]]]]:
        group: list[tuple[Sequence[Item], asyncio.Future[list[Answer]]]] = []
        room = GROUP
        while self._waiting and (not group or len(self._waiting[0][0]) <= room):
            items, answers = self._waiting.popleft()
            if not answers.done():  # cancelled before it began
                group.append((items, answers))
                room -= len(items)
        return group

    async def _answer(
        self, group: Sequence[tuple[Sequence[Item], asyncio.Future[list[Answer]]]]
    ) -> None:
        try:
            found = await self._call([item for items, _ in group for item in items])
        except RedisRefused as error:
            if len(group) > 1:
                # Of one at fault the others are not to suffer.
                for one in group:
                    await self._answer([one])
                return
            _fail(group, error)
        except Exception as error:  # told to those who asked
            _fail(group, error)
        else:
            at = 0
            for items, answers in group:
                if not answers.done():
                    answers.set_result(found[at : at + len(items)])
                at += len(items)


def _fail(
    group: Sequence[tuple[Sequence[Item], asyncio.Future[list[Answer]]]], error: Exception
) -> None:
    for _, answers in group:
        if not answers.done():
            answers.set_exception(error)
