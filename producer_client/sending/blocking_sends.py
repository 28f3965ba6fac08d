"""Sends from a thread: `send_flow` over calls that block until they are answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from feedback.errors import OncewardError, RedisUnavailable
from feedback.kafka.sending import KafkaSender
from feedback.records.schemas import SchemaFile
from feedback.records.stored_payload import StoredPayload
from feedback.redis.memory import RedisMemory
from feedback.redis.store import StatusStore
from feedback.settings.settings import ClientSection
from feedback.statuses import Refused, Replaced, Status, StatusWrite, WriteAnswer
from producer_client.sending.send_flow import SendFlow
from producer_client.sending.sent_before import SentBefore
from producer_client.sending.sync_bridge import at_once
from producer_client.submission import Prepared, Submission


class _Blocking:
    """A store whose calls are answered when they return.

    Once it is closed it calls nobody: redis-py would connect again, and nobody would end that.
    """

    def __init__(self, given: StatusStore) -> None:
        self._given = given
        self.group = given.group

    @property
    def _store(self) -> StatusStore:
        if self._given.is_closed:
            raise RedisUnavailable("Redis: the client is closed", never_reached=True)
        return self._given

    async def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[WriteAnswer]:
        return self._store.replace(writes, look_at=look_at)

    async def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        return self._store.read_many(request_ids)

    async def memory(self, request_id: str | None) -> RedisMemory:
        return self._store.memory(request_id)

    async def forget(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None = None,
    ) -> bool:
        return self._store.forget(
            request_id,
            attempt=attempt,
            payload_sha256=payload_sha256,
            deadline_at=deadline_at,
            replaced=replaced,
        )


class BlockingSends:
    """Sends requests, once or again. Safe to share between threads.

    Args:
        section: default topic, deadline and times.
        store: where PENDING is written.
        sender: hands records to Kafka.
        model: a pydantic model that every value must be.
        schema: the schema that every value must match.
        make_way: makes a way of another kind.
        sent: the earlier sends of this process; None: none.
    """

    def __init__(
        self,
        section: ClientSection,
        store: StatusStore,
        sender: KafkaSender,
        *,
        model: type | None = None,
        schema: SchemaFile | None = None,
        make_way: Callable[..., SendFlow] = SendFlow,
        sent: SentBefore | None = None,
    ) -> None:
        self.way = make_way(
            section, _Blocking(store), sender, model=model, schema=schema, sent=sent
        )
        self.prepare = self.way.prepare
        self.next_attempt = self.way.next_attempt

    def one(self, submission: Submission) -> Prepared:
        """Send one request and return it as it was sent; see `Client.send`."""
        return at_once(self.way.one(submission))

    def again(
        self,
        request_id: str,
        payload: StoredPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
        keeps_payload: bool = True,
    ) -> None:
        """Send a request again under the same id; see `SendFlow.again`."""
        at_once(
            self.way.again(
                request_id,
                payload,
                known=known,
                deadline_at=deadline_at,
                keeps_payload=keeps_payload,
            )
        )

    def again_many(
        self, batch: Sequence[Prepared], *, keep_payloads: bool
    ) -> list[OncewardError | Refused | None]:
        """Send requests again; see `SendFlow.again_many`."""
        return at_once(self.way.again_many(batch, keep_payloads=keep_payloads))
