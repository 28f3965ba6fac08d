"""A dead letter as it was found, whoever wrote it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from feedback.records.dead_letter_topics import is_dead_letter_topic, source_topic
from feedback.records.envelope import Headers, Record
from feedback.records.failure_headers import DLQ_REDRIVE_ID


class Dialect(StrEnum):
    """The system that wrote a letter's headers."""

    ONCEWARD = "onceward"
    CONNECT = "connect"
    STREAMS = "streams"
    SHARE = "share"
    SPRING = "spring"
    SMALLRYE = "smallrye"
    KARAFKA = "karafka"
    NONE = "none"


class Original(NamedTuple):
    """Where the failed record was read; a field that the headers lack is None.

    Attributes:
        key: as text, cut; the letter's own key is whole.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    key: str | None = None


class Failure(NamedTuple):
    """The failure in a letter's headers; a field that they lack is None.

    A tuple, since one is made for every letter: with so many fields a frozen dataclass takes four
    times as long.

    Attributes:
        reason: a short label, stable enough to count by.
        code: the code of the FAILED request, where the letter is one of ours.
        stage: how far the request came.
        attempts: how many runs it had; 0 for one that was refused at once.
        group: the consumer group or application that failed.
    """

    original: Original = Original()
    reason: str | None = None
    code: str | None = None
    stage: str | None = None
    exception_class: str | None = None
    exception_message: str | None = None
    stack: str | None = None
    attempts: int | None = None
    first_failed_at: int | None = None
    failed_at: int | None = None
    redrive_count: int = 0
    redrive_id: str | None = None
    redrive_by: str | None = None
    group: str | None = None


class Letter(NamedTuple):
    """One record of a dead letter topic, with the failure that it describes.

    Attributes:
        request_id: the one in its header; else made of the failed record's place, where that is
            known whole; else of the letter's own place.
        key: that of the failed record; the letter's own, but for dialects that replace it.
    """

    record: Record
    dialect: Dialect
    request_id: str
    failure: Failure
    key: bytes | None

    @property
    def topic(self) -> str:
        """The topic that the failed record was read from; without one, the letter's own."""
        return self.failure.original.topic or self.record.topic

    @property
    def home(self) -> str:
        """The topic that it is sent back to.

        For a letter of ours the name of its own topic decides. Its header may come from the
        producer, or from an application whose dead letters are our requests.
        """
        group = self.failure.group
        if self.dialect is Dialect.ONCEWARD and group is not None:
            topic = source_topic(self.record.topic, group)
            if topic != self.record.topic:
                return topic
        return self.topic

    def is_of(self, group: str) -> bool:
        """Whether it is a failure of this group, and not of another system or group.

        The name of the group alone proves nothing: a connector, or an application beside ours, may
        have it, or have read a letter of ours and kept its headers. So the topic has to be one of
        the group's dead letter topics, or a mirror of one with a prefix.
        """
        if not is_dead_letter_topic(self.record.topic, group):
            return False
        if self.failure.group is None:
            return self.dialect in (Dialect.ONCEWARD, Dialect.NONE)
        return self.dialect is Dialect.ONCEWARD and self.failure.group == group

    @property
    def sent_by(self) -> str | None:
        """The redrive that had sent what failed, as our header says it, whoever wrote the letter.

        Any writer may set it.
        """
        sent_by_it = dict(self.headers).get(DLQ_REDRIVE_ID)
        return None if sent_by_it is None else sent_by_it.decode("utf-8", "replace")

    def writing_for(self, group: str) -> str:
        """Return what tells it from letters of the same request and attempts.

        Empty for the group's own: one that was written twice is one. What fails again in another
        system was read at another place, or sent by another redrive.
        """
        if self.is_of(group):
            return ""
        place = self.failure.original[:3]
        place = self.record[:3] if None in place else place
        return repr((self.dialect.value, self.failure.group, *place, self.sent_by))

    @property
    def failed_at(self) -> int:
        """The time of the failure, in epoch ms; without one, that of the letter's writing."""
        return (
            self.record.timestamp_ms if self.failure.failed_at is None else self.failure.failed_at
        )

    @property
    def value(self) -> bytes | None:
        """The value of the record that failed."""
        return self.record.value

    @property
    def headers(self) -> Headers:
        """The headers as sent."""
        return self.record.headers

    def __repr__(self) -> str:
        return f"DeadLetter({self.request_id})"  # no payload in a log
