"""`resend.jsonl`: the requests that are safe to send again, as `onceward-client send` takes
them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from feedback.errors import RedisUnavailable
from feedback.files import OWNER_ONLY
from feedback.kafka.reader import RecordReader
from feedback.records.envelope import payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import FINAL
from spark_audit.findings import FindingRow
from spark_audit.output.location import Location
from spark_audit.output.outputs import new_file

TIMEOUT_S = 10.0


class PayloadReader:
    """Reads payloads one by one; nothing is asked before the first."""

    def __init__(self, settings: Settings) -> None:
        self._store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        self._records = RecordReader(settings.kafka)

    def __enter__(self) -> PayloadReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()
        self._records.close()

    def is_begun(self, request_id: str) -> bool:
        """Return whether a worker has told that it began a request, or how it ended.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        status = self._store.read(request_id)
        return status.generation > 0 or status.state in FINAL

    def read(
        self, request_id: str, topic: str, partition: int, offset: int, digest: str | None
    ) -> Payload | None:
        """Return key, value and headers; None when they are gone.

        A topic that was made anew has another's record at the same offset: under this id it would
        be a new request, and run a second time.

        Args:
            digest: `payload_sha256` of the record that was judged; another payload is not its own.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        try:
            kept = self._store.kept_payload(request_id)
        except RedisUnavailable:
            kept = None  # Kafka has it
        if kept is not None and payload_sha256(kept.key, kept.value) == digest:
            return kept.key, kept.value, kept.headers
        record = self._records.read(topic, partition, offset, timeout_s=TIMEOUT_S)
        if record is None or payload_sha256(record.key, record.value) != digest:
            return None
        return record.key, record.value, record.headers


Headers = tuple[tuple[str, bytes | None], ...]
Payload = tuple[bytes | None, bytes | None, Headers]
# (request_id, topic, partition, offset, payload_sha256) into key, value and headers; None when the
# payload is gone.
ReadPayload = Callable[[str, str, int, int, str | None], Payload | None]

# Of an earlier attempt; the client writes its own.
_OURS = "onceward-"


@dataclass(frozen=True, slots=True)
class ResendLines:
    """The counts of lost requests by whether they got a line.

    Args:
        ready: they have a line.
        payload_gone: neither Redis nor Kafka has their payload any more.
        begun: Redis says that a worker has begun or ended them, which the journal does not know.
        withheld: nothing tells of them, but of others that were begun: a journal that has lost rows
            may have lost theirs.
        not_text: their key or a header is not text, or they have neither key nor value: no line
            can say them.
    """

    ready: int = 0
    payload_gone: int = 0
    begun: int = 0
    not_text: int = 0
    withheld: int = 0


class NotText(ValueError):
    """A payload that a line of JSON cannot say exactly."""


def write_resend(
    lost: Iterable[FindingRow],
    read_payload: ReadPayload,
    path: Location,
    *,
    is_begun: Callable[[str], bool],
    audit: Mapping[str, str | int] | None = None,
) -> ResendLines:
    """Write a line for each request and return how many there are.

    Payloads belong to their clients: nobody but the owner may read the file.

    Args:
        lost: requests that are safe to send again, in the order in which they are to be sent.
        is_begun: whether a request's status says more than the journal: then it has no line.
        audit: the audit as each line names it, by which the client sees whether it is too old:
            group, journal (its id) and read_at (epoch ms by the database's clock).
    """
    ready = gone = begun = not_text = 0
    with new_file(path, mode=OWNER_ONLY) as file:
        for one in lost:
            if one.topic is None or one.partition is None or one.offset is None:
                gone += 1
                continue
            if is_begun(one.request_id):
                begun += 1
                continue
            payload = read_payload(
                one.request_id, one.topic, one.partition, one.offset, one.payload_sha256
            )
            if payload is None:
                gone += 1
                continue
            try:
                line = resend_line(one.request_id, one.topic, payload, audit=audit)
            except NotText:
                not_text += 1
                continue
            file.write(line)
            ready += 1
    return ResendLines(ready, gone, begun, not_text)


def resend_line(
    request_id: str,
    topic: str,
    payload: Payload,
    *,
    audit: Mapping[str, str | int] | None = None,
) -> str:
    """Return the line of one request.

    Args:
        audit: as for `write_resend`.

    Raises:
        NotText: the line could not say the same key, value and headers.
    """
    key, value, headers = payload
    if key is None and value is None:
        raise NotText
    line: dict[str, Any] = {
        "request_id": request_id,
        "topic": topic,
        "key": None if key is None else _text(key),
        "value_base64": None if value is None else base64.b64encode(value).decode("ascii"),
        "headers": [[name, _text(raw)] for name, raw in headers if not name.startswith(_OURS)],
    }
    if audit is not None:
        line["audit"] = dict(audit)
    return json.dumps(line) + "\n"


def _text(raw: bytes | None) -> str:
    try:
        if raw is not None:
            return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise NotText
