"""Which headers of a letter its dialect wrote, and which the user wrote. Pure.

Where a user's header may look like a dialect's, only whole names count: a `source_system` in a
Karafka letter is the user's.
"""

from __future__ import annotations

import re

from consumer.dlq.letter import Dialect
from feedback.records.envelope import Headers

_KARAFKA = r"_(topic|partition|offset|consumer_group|attempts|key|trace_id)\Z"
_OWN = {
    Dialect.CONNECT: re.compile(r"__connect\.errors\."),
    Dialect.STREAMS: re.compile(r"__streams\.errors\."),
    Dialect.SHARE: re.compile(r"__dlq\.errors\."),
    Dialect.SPRING: re.compile(
        r"kafka_dlt-|kafka_original-|kafka_(key-)?exception-|springDeserializerException(Key|Value)\Z"
        r"|retry_topic-(attempts|original-timestamp|backoff-timestamp)\Z"
    ),
    Dialect.SMALLRYE: re.compile(
        r"dead-letter-(reason|cause|topic|partition|offset|exception-class-name|cause-class-name)\Z"
    ),
    Dialect.KARAFKA: re.compile("source" + _KARAFKA),
}
_KARAFKA_BEFORE_2_5 = re.compile("original" + _KARAFKA)


def without_own(dialect: Dialect, headers: Headers) -> Headers:
    """Return the headers that the dialect did not write, in their order; for our dialect all."""
    own = _OWN.get(dialect)
    if own is None:
        return headers
    if dialect is Dialect.KARAFKA and not any(own.match(name) for name, _ in headers):
        own = _KARAFKA_BEFORE_2_5
    return [one for one in headers if not own.match(one[0])]
