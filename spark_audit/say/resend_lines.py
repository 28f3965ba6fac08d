"""`resend.jsonl`: the requests that are safe to send again, as `onceward-client send` takes
them.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from feedback.errors import RedisUnavailable
from feedback.files import OWNER_ONLY
from feedback.kafka.reader import RecordReader
from feedback.records.envelope import Record, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import FINAL
from spark_audit.findings import FindingRow
from spark_audit.output.location import Location
from spark_audit.output.outputs import new_file

TIMEOUT_S = 10.0
_Item = TypeVar("_Item")


# A status is small; a payload may have a megabyte.
STATUSES_AT_ONCE = 500
PAYLOADS_AT_ONCE = 100


class LostRecord(NamedTuple):
    """A lost request, and where its record was read.

    Args:
        digest: `payload_sha256` of the record that was judged; another payload is not its own.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    digest: str | None


class PayloadReader:
    """Reads payloads, many at once; nothing is asked before the first."""

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

    def begun(self, request_ids: Iterable[str]) -> list[bool]:
        """Return of each request whether a worker has told that it began it, or how it ended.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        return [
            status.generation > 0 or status.state in FINAL
            for some in _batched(request_ids, STATUSES_AT_ONCE)
            for status in self._store.read_many(some)
        ]

    def read(self, lost: Sequence[LostRecord]) -> list[Payload | None]:
        """Return key, value and headers of each; None when they are gone.

        A topic that was made anew has another's record at the same offset: under this id it would
        be a new request, and run a second time.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        found: dict[str, Payload | None] = {}
        left: dict[tuple[str, int], list[LostRecord]] = defaultdict(list)
        for one, kept in zip(lost, self._kept(lost), strict=True):
            if kept is not None and payload_sha256(kept.key, kept.value) == one.digest:
                found[one.request_id] = kept.key, kept.value, kept.headers
            else:
                left[one.topic, one.partition].append(one)
        for place, some in left.items():
            offsets = sorted({one.offset for one in some})
            records = self._records.read_many(*place, offsets, timeout_s=TIMEOUT_S)
            found |= {one.request_id: _payload_of(one, records[one.offset]) for one in some}
        return [found[one.request_id] for one in lost]

    def _kept(self, lost: Sequence[LostRecord]) -> Sequence[StoredPayload | None]:
        try:
            return self._store.kept_payloads([one.request_id for one in lost])
        except RedisUnavailable:
            return [None] * len(lost)  # Kafka has them


def _payload_of(lost: LostRecord, record: Record | None) -> Payload | None:
    if record is None or payload_sha256(record.key, record.value) != lost.digest:
        return None
    return record.key, record.value, record.headers


SentHeaders = tuple[tuple[str, bytes | None], ...]
Payload = tuple[bytes | None, bytes | None, SentHeaders]
# Key, value and headers of each; None when the payload is gone.
ReadPayloads = Callable[[Sequence[LostRecord]], Sequence[Payload | None]]

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
    read_payloads: ReadPayloads,
    path: Location,
    *,
    begun: Callable[[Sequence[str]], Sequence[bool]],
    audit: Mapping[str, str | int] | None = None,
) -> ResendLines:
    """Write a line for each request and return how many there are.

    Payloads belong to their clients: nobody but the owner may read the file.

    Args:
        lost: requests that are safe to send again, in the order in which they are to be sent.
        begun: whether the status of each says more than the journal: then it has no line.
        audit: the audit as each line names it, by which the client sees whether it is too old:
            group, journal (its id) and read_at (epoch ms by the database's clock).
    """
    counts = ResendLines()
    with new_file(path, mode=OWNER_ONLY) as file:
        for some in _batched(lost, PAYLOADS_AT_ONCE):
            placed = [one for row in some if (one := _lost_record(row)) is not None]
            told = begun([one.request_id for one in placed])
            wanted = [one for one, is_begun in zip(placed, told, strict=True) if not is_begun]
            lines = [
                _line(one, payload, audit)
                for one, payload in zip(wanted, read_payloads(wanted), strict=True)
                if payload is not None
            ]
            said = [line for line in lines if line is not None]
            file.writelines(said)
            counts = replace(
                counts,
                ready=counts.ready + len(said),
                payload_gone=counts.payload_gone
                + (len(some) - len(placed))
                + (len(wanted) - len(lines)),
                begun=counts.begun + len(placed) - len(wanted),
                not_text=counts.not_text + len(lines) - len(said),
            )
    return counts


def _lost_record(row: FindingRow) -> LostRecord | None:
    if row.topic is None or row.partition is None or row.offset is None:
        return None
    return LostRecord(row.request_id, row.topic, row.partition, row.offset, row.payload_sha256)


def _line(lost: LostRecord, payload: Payload, audit: Mapping[str, str | int] | None) -> str | None:
    try:
        return resend_line(lost.request_id, lost.topic, payload, audit=audit)
    except NotText:
        return None


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


def _batched(all_of_them: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    left = iter(all_of_them)
    while some := list(islice(left, most)):
        yield some
