"""A client without servers, for the tests of front-ends: the test says how requests go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feedback.clock import epoch_ms
from feedback.errors import NotSent, SendUnknown
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.records.envelope import Record
from feedback.settings.settings import Settings
from feedback.status import BEFORE_CLAIM, State
from feedback.statuses import Status
from onceward.testing.bench import GROUP, WORKER, Bench
from onceward.testing.bench_outcome import NotReal
from onceward.testing.memory import memory_store
from onceward.testing.real.switch import real_servers
from onceward.testing.told import StatusRefused, told_write
from producer_client.client.client import Client, schema_of
from producer_client.client.wait_rules import AnyHandle, WaitedRequest, end_of
from producer_client.sending.blocking_sends import BlockingSends
from producer_client.sending.sent_before import SentBefore


@dataclass(frozen=True, slots=True)
class SendFailure:
    """The failure of one send.

    Attributes:
        arrives: the record is there nevertheless, and Kafka's answer is lost.
    """

    reason: str
    is_unknown: bool
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A record that was handed over."""

    failure: SendFailure | None

    async def ending(self) -> object:
        """Return when Kafka has it.

        Raises:
            RecordUnknown: its answer is lost.
        """
        if self.failure is not None:
            raise RecordUnknown(self.failure.reason)
        return None

    def take_back(self) -> bool:
        """Return False: it has gone."""
        return False


class MemorySender:
    """Takes records as `feedback.kafka.sending.KafkaSender` does.

    Attributes:
        failures: of the next sends, one for each, in order.
        records: those that arrived, and that nobody has read.
    """

    def __init__(self) -> None:
        self.failures: deque[SendFailure] = deque()
        self.records: deque[Record] = deque()
        self._offset = 0

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> HandedOver:
        """Take one record.

        Raises:
            RecordNotSent: the test wants it so.
        """
        failure = self.failures.popleft() if self.failures else None
        if failure is not None and not failure.is_unknown:
            raise RecordNotSent(failure.reason)
        if failure is None or failure.arrives:
            record = Record(topic, 0, self._offset, epoch_ms(), key, value, tuple(headers))
            self._offset += 1
            self.records.append(record)
        return HandedOver(failure)

    def close(self) -> None:
        """Do nothing."""


class MemoryClient(Client):
    """A `Client` whose Kafka and Redis are in this process; not for several threads.

    Sends, resends and statuses go by the client's own rules. A request stays PENDING until the test
    says more by `tell`, or `work` lets the given handlers run it. A wait lets them run first, and
    does not wait: where there is no end by then, it raises `WaitTimeout` at once.

    >>> client = MemoryClient()
    >>> handle = client.send({"amount": 5}, topic="payments", request_id="order-7")
    >>> client.tell("order-7", State.SUCCEEDED, result={"receipt": 1}).result
    {'receipt': 1}
    >>> handle.wait().state
    <State.SUCCEEDED: 'SUCCEEDED'>
    >>> client.close()

    Args:
        settings, model, schema: as of `Client`.
        handlers: functions with `@handler` that run what is sent to their topics.

    Attributes:
        send_flow: the steps of its sends.

    Raises:
        NotCovered: a bench cannot run one of the handlers.
        NotAvailable: fakeredis is not installed.
        NotReal: tests run on real servers.
    """

    def __init__(
        self,
        settings: Settings | Path | str | None = None,
        *,
        handlers: Iterable[Callable[..., Any]] = (),
        model: type | None = None,
        schema: Path | str | None = None,
    ) -> None:
        if real_servers() is not None:
            raise NotReal(
                "MemoryClient: the test says how its requests go on, and real servers would not"
            )
        super().__init__(settings, model=model, schema=schema)
        self.store = memory_store(GROUP)
        self._memory = MemorySender()
        sender: Any = self._memory
        self._sending = BlockingSends(
            self.settings.client,
            self.store,
            sender,
            model=model,
            schema=schema_of(self.settings, model, schema),
            sent=SentBefore(),
        )
        self.send_flow = self._sending.way
        self._benches = {one: Bench(one, store=self.store) for one in handlers}

    def __enter__(self) -> MemoryClient:
        return self

    def close(self) -> None:
        """Forget all requests, and close for good."""
        for bench in self._benches.values():
            bench.close()
        super().close()

    # what the test says --------------------------------------------------------------------

    def bench(self, function: Callable[..., Any]) -> Bench:
        """Return the bench of a given handler, as to let its next run die."""
        return self._benches[function]

    def work(self) -> None:
        """Let the given handlers run all that was sent to their topics."""
        benches = {bench.handler.topic: bench for bench in self._benches.values()}
        while self._memory.records:
            record = self._memory.records.popleft()
            if record.topic in benches:
                benches[record.topic].deliver(record)

    def tell(
        self,
        request_id: str,
        state: State,
        *,
        result: object = None,
        code: str | None = None,
        message: str | None = None,
        resend: bool = False,
    ) -> Status:
        """Say how a request stands that was sent, and return its status.

        Args:
            state: LOST is a request whose worker died before its claim.
            result: of SUCCEEDED; JSON can hold it.
            resend: of FAILED: a resend may help.

        Raises:
            StatusRefused: it was not sent, or the rule of statuses allows no such step.
        """
        write = told_write(
            self.status(request_id),
            state,
            result=result,
            code=code,
            message=message,
            resend=resend,
            worker_id="" if state is State.LOST else WORKER,
        )
        if state in BEFORE_CLAIM:
            self.store.beat(WORKER, {})
        (refusal,) = self.store.write([write])
        if refusal is not None:
            raise StatusRefused(f"{request_id} is {refusal.state}: it cannot become {state}")
        return self.status(request_id)

    def fail_next_send(
        self,
        error: type[NotSent | SendUnknown],
        *,
        reason: str = "Kafka is away",
        arrives: bool = False,
    ) -> None:
        """Let one more of the next sends fail.

        Args:
            error: by the client's rules a `NotSent` of a request that was sent before, or may have
                been, is told as `SendUnknown`.
            arrives: of `SendUnknown`: whether the handlers get the record nevertheless.
        """
        is_unknown = issubclass(error, SendUnknown)
        self._memory.failures.append(SendFailure(reason, is_unknown, arrives and is_unknown))

    # waiting -------------------------------------------------------------------------------

    def wait(
        self, request: AnyHandle | str, *, timeout_s: float | None = None, resend: bool = True
    ) -> Status:
        """Return the final status; a LOST request is sent again first, as `Client.wait` does.

        Raises:
            WaitTimeout: it has no end yet.
            PayloadMismatch: the handle's id is another request's.
        """
        self.work()
        waited = WaitedRequest.of(request, now_s=0.0)
        status = self.status(waited.request_id)
        if resend and status.state is State.LOST:
            payload = waited.payload or self.store.kept_payload(waited.request_id)
            if payload is not None:
                self.resend(waited.request_id, payload, known=status)
                self.work()
                status = self.status(waited.request_id)
        end = end_of(waited, status, began_s=0.0, now_s=0.0, left_s=0.0)
        assert end is not None  # with no time left it returns an end, or raises
        return end

    def wait_many(
        self, request_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Iterator[Status]:
        """Yield the final status of each request.

        Raises:
            WaitTimeout: one of them has no end yet.
        """
        for request_id in dict.fromkeys(request_ids):
            yield self.wait(request_id, resend=False)
