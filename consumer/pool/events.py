"""The events that the pool reports to its worker."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.pool.job import Job
from consumer.pool.outcome import Outcome


@dataclass(frozen=True, slots=True)
class ChildReady:
    """A child has imported its handlers and takes work."""

    pid: int


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """A child ended before it was ready; `reason` is one line. Another is tried after a pause.

    `pid` is 0 when the operating system refused to start it.
    """

    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Started:
    """A slot runs the request: from now on its effect may happen."""

    request_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The request's run has ended and its slot is free."""

    request_id: str
    generation: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class EffectAsked:
    """A marked run waits at its effect; `Pool.answer_effect` lets it go on."""

    request_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class ChildDied:
    """A child that was ready has ended, and another is on its way.

    Attributes:
        pid: its process id.
        reason: in words, like `killed by SIGKILL`.
        started: runs that had begun and not ended; all of them where its words cannot be read.
        not_started: jobs that no slot had taken: their handlers have certainly not run.
        overdue: runs past their time limit, for which it was killed; they are not in `started`.
    """

    pid: int
    reason: str
    started: tuple[Job, ...]
    not_started: tuple[Job, ...]
    overdue: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildRetired:
    """A child has ended that had done its share, or had grown; it held no job any more."""

    pid: int
    reason: str


Event = ChildReady | ChildFailed | Started | Finished | EffectAsked | ChildDied | ChildRetired
