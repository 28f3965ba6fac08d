"""The messages between parent and child, as frames.

Parent to child: `jobs`, `effect` (an answer), `log_level`, `stop`. Child to parent: `ready`,
`failed`, and reports of jobs that started, finished or wait at their effect. A job is named by a
number that the parent gave it. Everything from a child is checked: it runs the user's code and may
be broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consumer.pool.frames import Frame, MalformedFrame, encode_frame
from consumer.pool.job import Job, PoolSettings
from consumer.pool.outcome import (
    CLASS_LIMIT,
    MESSAGE_LIMIT,
    STACK_LIMIT_BYTES,
    Outcome,
    RaisedError,
)
from feedback.status import State

Numbered = tuple[int, Job]

_FLAGS = 5  # resend, committed, stale, voided, unbegun
_ENDED = (State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.SKIPPED)
_ENDINGS = {state.value: state for state in _ENDED}
# Everything of a report but its result: most of it a stack, each byte of it six in JSON at worst.
_ROW_LIMIT_BYTES = 16384 + 6 * STACK_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class Report:
    """A child's report on its jobs, by number, in the order in which it is to be read."""

    started: Sequence[int] = ()
    asked: Sequence[int] = ()
    finished: Sequence[tuple[int, Outcome]] = ()
    ready: bool = False
    failed: str | None = None
    declarations: str | None = None


def report_limit_bytes(settings: PoolSettings) -> int:
    """Return the longest frame that a child of this pool can have reason to write."""
    jobs = settings.slots_per_process + settings.prefetch
    return (jobs + 1) * (settings.max_result_bytes + _ROW_LIMIT_BYTES)


def pack_jobs(jobs: Iterable[Numbered]) -> bytes:
    """Return the frame that gives the jobs to a child."""
    rows: list[list[Any]] = []
    parts: list[bytes] = []
    for number, job in jobs:
        row: list[Any] = [number, job.request_id, job.generation, job.topic, job.partition]
        row += (job.offset, job.timestamp, job.attempt, job.deadline_at, job.voids, job.asks)
        row.append(job.collapses)
        for name, value in ((None, job.key), (None, job.value), *job.headers):
            row.append(name)
            if value is None:
                row.append(-1)
            else:
                row.append(len(value))
                parts.append(value)
        rows.append(row)
    return encode_frame({"jobs": rows}, b"".join(parts))


def unpack_jobs(frame: Frame) -> list[Numbered]:
    """Return the jobs of a frame that the parent wrote."""
    header, tail = frame
    jobs = []
    start = 0
    for row in header["jobs"]:
        number, request_id, generation, topic, partition = row[:5]
        offset, timestamp, attempt, deadline_at, voids, asks, collapses = row[5:12]
        values: list[bytes | None] = []
        for size_bytes in row[13::2]:
            if size_bytes < 0:
                values.append(None)
            else:
                values.append(tail[start : start + size_bytes])
                start += size_bytes
        key, value, *rest = values
        place = (request_id, generation, topic, partition, offset, timestamp)
        headers = tuple(zip(row[16::2], rest, strict=True))
        sent = (key, value, headers, attempt, deadline_at, voids)
        jobs.append((number, Job(*place, *sent, asks=asks, collapses=collapses)))
    return jobs


def pack_answer(number: int, *, granted: bool) -> bytes:
    """Return the frame that answers a run that waits at its effect."""
    return encode_frame({"effect": [number, granted]})


def pack_log_level(level: str) -> bytes:
    """Return the frame that changes the level of a child's logs."""
    return encode_frame({"log_level": level})


def pack_stop() -> bytes:
    """Return the frame that asks an idle child to end."""
    return encode_frame({"stop": True})


def pack_ready(declarations: str) -> bytes:
    """Return the frame of a child that takes work from now on, and has declared this."""
    return encode_frame({"ready": True, "declarations": declarations})


def pack_failure(reason: str) -> bytes:
    """Return the frame of a child that cannot take work."""
    return encode_frame({"failed": reason})


def pack_report(
    *,
    started: Sequence[int] = (),
    asked: Sequence[int] = (),
    finished: Sequence[tuple[int, Outcome]] = (),
) -> bytes:
    """Return the frame that tells of these jobs."""
    header: dict[str, Any] = {}
    if started:
        header["started"] = started
    if asked:
        header["asked"] = asked
    if not finished:
        return encode_frame(header)
    header["finished"] = [_row(number, outcome) for number, outcome in finished]
    return encode_frame(
        header, "".join([o.result for _, o in finished if o.result]).encode("ascii")
    )


def unpack_report(frame: Frame) -> Report:
    """Return the report of a child, checked.

    Raises:
        MalformedFrame: no child can send it.
    """
    header, tail = frame
    try:
        finished, used_bytes = _finished(header.get("finished", ()), tail)
        if used_bytes != len(tail):
            raise MalformedFrame("its results have other sizes than it says")
        return Report(
            started=_numbers(header.get("started", ())),
            asked=_numbers(header.get("asked", ())),
            finished=finished,
            ready=header.get("ready") is True,
            failed=_text(header.get("failed")),
            declarations=_text(header.get("declarations")),
        )
    except (TypeError, ValueError, IndexError) as error:
        if isinstance(error, MalformedFrame):
            raise
        raise MalformedFrame(f"a report of the wrong shape ({type(error).__name__})") from None


def _row(number: int, outcome: Outcome) -> list[Any]:
    size_bytes = -1 if outcome.result is None else len(outcome.result)
    flags = [
        outcome.resend,
        outcome.committed,
        outcome.stale,
        outcome.voided,
        outcome.unbegun,
    ]
    if not (outcome.code or outcome.message or outcome.raised or any(flags)):
        return [number, outcome.state, size_bytes]
    raised = outcome.raised or ()
    return [number, outcome.state, size_bytes, outcome.code, outcome.message, *flags, *raised]


def _finished(rows: Any, tail: bytes) -> tuple[list[tuple[int, Outcome]], int]:
    finished = []
    start = 0
    for number, state, size_bytes, *rest in rows:
        if type(number) is not int or type(size_bytes) is not int:
            raise MalformedFrame("a number that is none")
        end = start + max(size_bytes, 0)
        result = None if size_bytes < 0 else tail[start:end].decode("ascii")
        start = end
        if state not in _ENDINGS:
            raise MalformedFrame("an unknown state")
        if not rest:
            finished.append((number, Outcome(_ENDINGS[state], None, None, result)))
            continue
        code, message, *flags = rest
        flags, raised = flags[:_FLAGS], flags[_FLAGS:]
        if len(flags) != _FLAGS or any(type(flag) is not bool for flag in flags):
            raise MalformedFrame("flags that are none")
        ending = Outcome(_ENDINGS[state], _text(code), _text(message), result, *flags)
        finished.append((number, replace(ending, raised=_raised(raised)) if raised else ending))
    return finished, start


def _raised(texts: list[Any]) -> RaisedError:
    error_class, stack = texts
    if not (isinstance(error_class, str) and isinstance(stack, str)):
        raise MalformedFrame("a text that is none")
    return RaisedError(error_class[:CLASS_LIMIT], stack[-STACK_LIMIT_BYTES:])


def _numbers(value: Any) -> list[int]:
    numbers = list(value)
    if any(type(number) is not int for number in numbers):
        raise MalformedFrame("a number that is none")
    return numbers


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise MalformedFrame("a text that is none")
    return value[: 2 * MESSAGE_LIMIT]
