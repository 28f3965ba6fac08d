"""The account of a row: what clients were told, beside what the bank and the journal say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from feedback.status import FINAL, State
from tests.bench.measure.figures import percentile
from tests.demo.verdict import judge as judge_told

# IN_DOUBT alone may still become something else (docs: Statuses); nothing here is reopened.
RESOLVES_TO = frozenset({State.SUCCEEDED, State.FAILED})


class Forgotten(StrEnum):
    """What a server has thrown away that had acknowledged it: of what was told, that may be
    missing at the end. What is still there has to agree."""

    NOTHING = "nothing"
    ROWS = "rows of the journal"
    STATUSES = "statuses"


@dataclass(frozen=True, slots=True)
class Told:
    """What a client was told of one request.

    Attributes:
        first: the first final status seen in time; None: there was none.
        last: the status that stands in Redis at the end.
        changed: another final status seen after the first.
        wait_s: seconds from the send to the first.
        in_database: its charge lies in the journal's database, and is gone where its row is.
    """

    first: State | None
    last: State
    changed: State | None = None
    wait_s: float | None = None
    in_database: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """The account; each tuple names requests, `ran_twice` orders.

    Attributes:
        orders: what clients wanted, each once.
        asked_anew: requests beyond the first of their orders.
        not_sent: how often a client was told that its request is nowhere.
        words: of each that was told wrongly, what everybody says of it.
    """

    requests: int
    orders: int
    asked_anew: int
    not_sent: int
    ran_twice: tuple[str, ...]
    never_told: tuple[str, ...]
    told_wrongly: tuple[str, ...]
    in_doubt: tuple[str, ...]
    resent: int
    told_p95_s: float | None
    told_max_s: float | None
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not (self.ran_twice or self.never_told or self.told_wrongly)


def settle_account(
    told: Mapping[str, Told],
    *,
    ordered: Mapping[str, int],
    charged: Mapping[str, int],
    journal: Mapping[str, str],
    resent: int,
    not_sent: Collection[str] = (),
    orders: int | None = None,
    forgotten: Forgotten = Forgotten.NOTHING,
) -> Account:
    """Return the account.

    Args:
        told: each request that Kafka may have.
        ordered: how often each order was charged, by whatever requests.
        charged: how often each request charged.
        journal: the state of each row.
        not_sent: requests that their clients were told are nowhere.
        orders: how many there are; by default one for each of `told`.
        forgotten: what may be missing at the end.
    """
    orders = len(told) if orders is None else orders
    first = {request_id: one.first for request_id, one in told.items()}
    last: dict[str, State | None] = {
        request_id: one.last
        for request_id, one in told.items()
        if not _is_missing_status(one.last, forgotten)
    }
    seen = {
        request_id: max(
            charged.get(request_id, 0), _lost_charges(one, request_id, journal, forgotten)
        )
        for request_id, one in told.items()
    } | {one: times for one, times in charged.items() if one not in told}
    at_first = judge_told(first, seen, not_sent=(), resent=resent, seconds=0.0)
    of_last = {one: times for one, times in seen.items() if one in last or one not in told}
    at_last = judge_told(last, of_last, not_sent=(), resent=resent, seconds=0.0)
    somewhere = {one for one in not_sent if one in charged or one in journal}
    wrong = {
        *at_first.told_wrongly,
        *at_last.told_wrongly,
        *_disagreements(told, journal, forgotten),
    }
    waits_s = [one.wait_s for one in told.values() if one.wait_s is not None]
    return Account(
        requests=len(told),
        orders=orders,
        asked_anew=len(told) + len(not_sent) - orders,
        not_sent=len(not_sent),
        ran_twice=tuple(sorted(name for name, times in ordered.items() if times > 1)),
        never_told=at_first.never_told,
        told_wrongly=tuple(sorted(wrong | somewhere)),
        in_doubt=tuple(one for one, state in first.items() if state is State.IN_DOUBT),
        resent=resent,
        told_p95_s=_rounded(percentile(waits_s, 95)) if waits_s else None,
        told_max_s=_rounded(max(waits_s)) if waits_s else None,
        words={
            one: _words(told.get(one), journal.get(one), charged.get(one, 0))
            for one in sorted(wrong | somewhere)
        },
    )


def _words(told: Told | None, row: str | None, charges: int) -> str:
    said = "NotSent" if told is None else f"told {told.first}, then {told.changed or told.last}"
    return f"{said}; journal {row}; charged {charges}"


def unsettled(
    told: Mapping[str, Told],
    journal: Mapping[str, str],
    forgotten: Forgotten = Forgotten.NOTHING,
) -> Sequence[str]:
    """Return the requests whose status is not final, or not the journal's; time may repair them."""
    return [
        request_id
        for request_id, one in told.items()
        if not (
            _is_missing_status(one.last, forgotten)
            or (one.last in FINAL and _agrees(one.last, journal.get(request_id), forgotten))
        )
    ]


def _disagreements(
    told: Mapping[str, Told], journal: Mapping[str, str], forgotten: Forgotten
) -> Iterator[str]:
    for request_id, one in told.items():
        if one.first is None:
            continue
        is_lawful = _may_become(one.first, one.changed)
        if not _is_missing_status(one.last, forgotten):
            agrees = _agrees(one.last, journal.get(request_id), forgotten)
            is_lawful = is_lawful and agrees and _may_become(one.first, one.last)
        if not is_lawful:
            yield request_id


def _lost_charges(
    one: Told, request_id: str, journal: Mapping[str, str], forgotten: Forgotten
) -> int:
    """Return what the database has lost together with the row that it had acknowledged."""
    is_lost = forgotten is Forgotten.ROWS and one.in_database and request_id not in journal
    return int(is_lost and one.first is State.SUCCEEDED)


def _agrees(last: State, row: str | None, forgotten: Forgotten) -> bool:
    return row == last or (row is None and forgotten is Forgotten.ROWS)


def _is_missing_status(last: State, forgotten: Forgotten) -> bool:
    return last is State.UNKNOWN and forgotten is Forgotten.STATUSES


def _may_become(first: State, later: State | None) -> bool:
    if later is None or later is first:
        return True
    return first is State.IN_DOUBT and later in RESOLVES_TO


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
