"""What goes into the pool: its settings, and a job for each run."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.request import Headers


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The size of a pool and what its children need.

    Attributes:
        handlers: modules that each child imports.
        group: the consumer group; idempotency keys derive from it.
        processes: children. slots_per_process: handlers that run in one at the same time.
        prefetch: jobs that wait in a child beside those.
        max_result_bytes: a longer result is left out.
        journal_url: where transactional handlers write; unused without one.
        start_timeout_s: how long a child may take to import its handlers.
    """

    handlers: tuple[str, ...]
    group: str
    processes: int = 2
    slots_per_process: int = 1
    prefetch: int = 0
    max_result_bytes: int = 65536
    journal_url: str = field(default="", repr=False)  # may hold a password
    start_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """What a child needs for one run; times are epoch ms, and key and value may be null."""

    request_id: str
    generation: int
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: Headers = field(repr=False)
    attempt: int
    deadline_at: int
    voids: int = 0
