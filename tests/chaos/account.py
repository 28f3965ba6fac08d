"""The account of a row: what clients were told, beside what the bank and the journal say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from feedback.status import FINAL, State
from tests.bench.measure.figures import percentile
from tests.demo.verdict import judge as judge_told

# IN_DOUBT alone may still become something else (contract, section 4); nothing here is reopened.
RESOLVES_TO = frozenset({State.SUCCEEDED, State.FAILED})


@dataclass(frozen=True, slots=True)
class Told:
    """What a client was told of one request.

    Attributes:
        first: the first final status seen in time; None: there was none.
        last: the status that stands in Redis at the end.
        changed: another final status seen after the first.
        wait_s: seconds from the send to the first.
    """

    first: State | None
    last: State
    changed: State | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The account; each tuple names requests."""

    requests: int
    ran_twice: tuple[str, ...]
    never_told: tuple[str, ...]
    told_wrongly: tuple[str, ...]
    in_doubt: tuple[str, ...]
    resent: int
    told_p95_s: float | None
    told_max_s: float | None

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not (self.ran_twice or self.never_told or self.told_wrongly)


def settle_account(
    told: Mapping[str, Told],
    *,
    charges: Mapping[str, int],
    journal: Mapping[str, str],
    resent: int,
) -> Account:
    """Return the account.

    Args:
        told: each request that Kafka may have.
        charges: how often each was charged.
        journal: the state of each row.
    """
    first = {request_id: one.first for request_id, one in told.items()}
    last: dict[str, State | None] = {request_id: one.last for request_id, one in told.items()}
    at_first = judge_told(first, charges, not_sent=(), resent=resent, seconds=0.0)
    at_last = judge_told(last, charges, not_sent=(), resent=resent, seconds=0.0)
    wrong = {*at_first.told_wrongly, *at_last.told_wrongly, *_disagreements(told, journal)}
    waits_s = [one.wait_s for one in told.values() if one.wait_s is not None]
    return Account(
        requests=len(told),
        ran_twice=at_first.charged_twice,
        never_told=at_first.never_told,
        told_wrongly=tuple(sorted(wrong)),
        in_doubt=tuple(one for one, state in first.items() if state is State.IN_DOUBT),
        resent=resent,
        told_p95_s=_rounded(percentile(waits_s, 95)) if waits_s else None,
        told_max_s=_rounded(max(waits_s)) if waits_s else None,
    )


def unsettled(told: Mapping[str, Told], journal: Mapping[str, str]) -> Sequence[str]:
    """Return the requests whose status is not final, or not the journal's; time may repair them."""
    return [
        request_id
        for request_id, one in told.items()
        if one.last not in FINAL or journal.get(request_id) != one.last
    ]


def _disagreements(told: Mapping[str, Told], journal: Mapping[str, str]) -> Iterator[str]:
    for request_id, one in told.items():
        if one.first is None:
            continue
        agrees = journal.get(request_id) == one.last
        is_lawful = _may_become(one.first, one.last) and _may_become(one.first, one.changed)
        if not (agrees and is_lawful):
            yield request_id


def _may_become(first: State, later: State | None) -> bool:
    if later is None or later is first:
        return True
    return first is State.IN_DOUBT and later in RESOLVES_TO


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
