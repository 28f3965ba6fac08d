"""Turns the statuses of a batch of due requests into decisions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from feedback.redis.deadlines import TakenRequests
from feedback.statuses import Status
from producer_client.resender.resends import WantedResend
from producer_client.sending.resending import (
    Ended,
    Later,
    Resend,
    SearchFirst,
    SeenRequest,
    decide,
    draw_of,
)


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """The decisions about due requests; `resends` and `searches` by topic, empty for unknown.

    Attributes:
        looks_s: seconds to the next check; of those in `searches`, too.
    """

    looks_s: dict[str, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    resends: dict[str, list[WantedResend]] = field(default_factory=dict)
    searches: dict[str, list[Status]] = field(default_factory=dict)


def resend_plan_of(
    statuses: Sequence[Status], taken: TakenRequests, *, resend_after_s: float
) -> ResendPlan:
    """Return the decision about each request.

    Args:
        taken: when they were taken, by the clock that decided that they are due.
        resend_after_s: the setting.
    """
    plan = ResendPlan()
    for status in statuses:
        seen = _seen(status, taken)
        match decide(seen, resend_after_s=resend_after_s):
            case Ended():
                plan.ended.append(status.request_id)
            case Later(look_s):
                plan.looks_s[status.request_id] = look_s
            case SearchFirst(look_s):
                plan.looks_s[status.request_id] = look_s
                plan.searches.setdefault(status.topic or "", []).append(status)
            case Resend(why):
                wanted = WantedResend(status, why, seen.left_s)
                plan.resends.setdefault(status.topic or "", []).append(wanted)
    return plan


def _seen(status: Status, taken: TakenRequests) -> SeenRequest:
    def in_s(at_ms: int | None) -> float | None:
        return None if at_ms is None else (at_ms - taken.now_ms) / 1000

    told_in_s = in_s(status.updated_at)
    return SeenRequest(
        state=status.state,
        attempt=status.attempt,
        since_told_s=-1.0 if told_in_s is None else -told_in_s,
        left_s=in_s(status.deadline_at),
        due_in_s=in_s(status.due_at),
        draw=draw_of(status.request_id, status.attempt),
        is_unfinished=status.request_id in taken.unfinished,
        is_from_before="" != taken.run_id != (status.told_in or taken.run_id),
        is_asked_anew=status.generation > 0,
    )
