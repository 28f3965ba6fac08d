"""Makes one call of many tasks' simultaneous ones: a thousand tasks, a few round trips.

While calls are under way, new requests gather for the next. So a single call is made at once, and
the more requests there are, the more of them share a call. No caller waits longer than a limit,
even if Redis hangs and earlier calls with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from feedback.errors import RedisRefused, RedisUnavailable

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

# One call has at most so many items, unless a caller asks for more; and so many calls are under
# way.
GROUP = 128
GROUP_BYTES = 1_000_000
AT_A_TIME = 4


@dataclass(slots=True, eq=False)
class _Asked(Generic[ItemT, AnswerT]):
    items: Sequence[ItemT]
    size_bytes: int
    answers: asyncio.Future[list[AnswerT]]
    has_begun: bool = False
    is_left: bool = False


class CoalescedCalls(Generic[ItemT, AnswerT]):
    """One call for the items of many callers. Belongs to one loop.

    Args:
        call: returns the answers in the order of the items.
        size_of: about how many bytes of a call an item takes.
        limit_s: the longest wait of a caller.
        unheard: called with the items of a caller that was cancelled after its call had begun, and
            their answers; never where the call failed.
    """

    def __init__(
        self,
        call: Callable[[Sequence[ItemT]], Awaitable[list[AnswerT]]],
        *,
        size_of: Callable[[ItemT], int],
        limit_s: float,
        unheard: Callable[[Sequence[ItemT], list[AnswerT]], None] = lambda items, answers: None,
    ) -> None:
        self._call = call
        self._size_of = size_of
        self._limit_s = limit_s
        self._unheard = unheard
        self._waiting: deque[_Asked[ItemT, AnswerT]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, items: Sequence[ItemT]) -> list[AnswerT]:
        """Return the answers to these items.

        A cancelled task takes nothing back that is under way; see `settled`.

        Raises:
            RedisUnavailable: there was no answer within the limit.
            Exception: the error of the call that carried them.
        """
        asked = _Asked[ItemT, AnswerT](
            items, sum(map(self._size_of, items)), asyncio.get_running_loop().create_future()
        )
        self._waiting.append(asked)
        if len(self._under_way) < AT_A_TIME:
            task = asyncio.create_task(self._run(), name="onceward-grouped")
            self._under_way.add(task)
        try:
            async with asyncio.timeout(self._limit_s):
                return await asked.answers
        except TimeoutError:
            said = f"Redis: no answer within {self._limit_s:g} s"
            raise RedisUnavailable(said, never_reached=not asked.has_begun) from None
        except asyncio.CancelledError:
            asked.is_left = True
            answers = asked.answers
            # The answer came in the same turn as the cancellation.
            if not answers.cancelled() and answers.done() and answers.exception() is None:
                self._unheard(items, answers.result())
            raise

    async def settled(self) -> None:
        """Return when all calls under way now have ended, cancelled ones too."""
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def _run(self) -> None:
        try:
            while group := self._next():
                await self._answer(group)
        finally:
            # In the same turn in which nothing was left: a later caller begins a call anew.
            self._under_way -= {asyncio.current_task()}

    def _next(self) -> list[_Asked[ItemT, AnswerT]]:
        group: list[_Asked[ItemT, AnswerT]] = []
        room, room_bytes = GROUP, GROUP_BYTES
        while self._waiting:
            first = self._waiting[0]
            if not first.answers.done():  # its caller gave up before it began
                room -= len(first.items)
                room_bytes -= first.size_bytes
                if group and min(room, room_bytes) < 0:
                    break
                first.has_begun = True
                group.append(first)
            self._waiting.popleft()
        return group

    async def _answer(
        self, group: Sequence[_Asked[ItemT, AnswerT]], *, reached: bool = False
    ) -> None:
        try:
            found = await self._call([item for asked in group for item in asked.items])
        except RedisRefused as error:
            if len(group) > 1:
                # One item's error must not reach the others. Those before it were written by then.
                for one in group:
                    await self._answer([one], reached=True)
                return
            _fail(group, error)
        except Exception as error:  # its callers raise it
            _fail(group, _as_reached(error) if reached else error)
        else:
            at = 0
            for asked in group:
                answers = found[at : at + len(asked.items)]
                if asked.is_left:
                    self._unheard(asked.items, answers)
                elif not asked.answers.done():
                    asked.answers.set_result(answers)
                at += len(asked.items)


def _as_reached(error: Exception) -> Exception:
    """Return the error of a call whose items an earlier call may have brought to Redis."""
    if not isinstance(error, RedisUnavailable):
        return error
    return RedisUnavailable(str(error)).because(error.fault)


def _fail(group: Sequence[_Asked[ItemT, AnswerT]], error: Exception) -> None:
    for asked in group:
        if not asked.answers.done():
            asked.answers.set_exception(error)
