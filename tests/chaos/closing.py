"""The end of a row: everybody told, statuses at rest, and the account of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from feedback.clock import monotonic_s
from feedback.redis.store import StatusStore
from feedback.status import FINAL, State
from tests.chaos.account import Account, Forgotten, Told, settle_account, unsettled
from tests.chaos.figure import Figure
from tests.chaos.orders import Kind
from tests.chaos.place import RESEND_AFTER_S
from tests.chaos.scene import Scene
from tests.chaos.tickets import Ticket
from tests.kit.banking import BankAccount

READ_AT_ONCE = 1_000
FORGOTTEN = "FORGOTTEN"
LOOK_EVERY_S = 0.5
# From its turn in the resender's list to its second end.
TURN_TAKES_S = 4.0


def close_account(scene: Scene) -> Account:
    """Wait until all is told and at rest, for as long as the row allows, and return the account."""
    scene.await_told()
    clients = scene.clients
    clients.rest()
    _let_turns_come(scene)
    tickets = dict(clients.tickets)
    # From here on nobody is told in time any more.
    first = {one: (ticket.told, ticket.wait_s) for one, ticket in tickets.items()}
    last, journal = _at_rest(scene, tickets)
    told = {
        one: Told(
            first[one][0],
            last[one],
            ticket.later,
            first[one][1],
            in_database=ticket.order.kind is Kind.TRANSACTIONAL,
        )
        for one, ticket in tickets.items()
    }
    bank = scene.bank_account()
    charges = BankAccount((*bank.charges, *scene.journal.charges()), bank.begins)
    resent = max(0, scene.topics.records() - len(tickets))
    return settle_account(
        told,
        ordered=charges.by_order(),
        charged=charges.by_request(),
        journal=journal,
        resent=resent,
        not_sent=clients.not_sent,
        orders=clients.ordered,
        forgotten=scene.row.forgotten,
    )


def _let_turns_come(scene: Scene) -> None:
    """Wait while the resender's list still has something that a client was told is over: if that
    is sent again, it is to be seen here."""
    over = scene.clients.over
    until_s = max(over.values(), default=0.0) + RESEND_AFTER_S + TURN_TAKES_S
    while monotonic_s() < until_s and _is_any_listed(scene.client.store, list(over)):
        scene.pause(LOOK_EVERY_S)


def _is_any_listed(store: StatusStore, request_ids: list[str]) -> bool:
    key = store.deadlines_key
    for page in _pages(request_ids):
        scores: list[float | None] = store.redis.zmscore(key, page)
        if any(score is not None for score in scores):
            return True
    return False


def common_figures(scene: Scene) -> list[Figure]:
    """Return what holds for every row."""
    ended = scene.fleet.ended_by_themselves
    if not scene.resender.is_alive:
        ended.append(f"{scene.resender.name} ended with {scene.resender.exit_code}")
    what = "processes that ended by themselves"
    if ended:
        what += f": {'; '.join(ended)}"
    return [Figure(what, len(ended), most=None if scene.row.workers_end else 0)]


def _at_rest(scene: Scene, tickets: dict[str, Ticket]) -> tuple[dict[str, State], dict[str, str]]:
    """Return statuses and journal when they agree, or as they are after `settle_s`."""
    deadline_s = monotonic_s() + scene.row.settle_s
    last: dict[str, State] = {}
    open_ids: Iterable[str] = tickets
    while True:
        last |= _statuses(scene, list(open_ids))
        journal = _journal(scene)
        seen = {one: Told(None, state) for one, state in last.items()}
        open_ids = unsettled(seen, journal, scene.row.forgotten)
        stirring = _stirring(scene)
        if not (open_ids or stirring) or monotonic_s() >= deadline_s:
            # Once more for all: what agreed before might have been changed since.
            return _statuses(scene, list(tickets)), _journal(scene)
        scene.pause(LOOK_EVERY_S)


def _journal(scene: Scene) -> dict[str, str]:
    states = scene.journal.states()
    if scene.row.forgotten is Forgotten.ROWS:
        # A row that says no more than that there was one.
        for request_id, code in scene.journal.codes().items():
            if code == FORGOTTEN:
                states.pop(request_id, None)
    return states


def _stirring(scene: Scene) -> list[str]:
    """Return what was told to be nowhere, and is about to run."""
    found = _statuses(scene, list(scene.clients.not_sent))
    return [one for one, state in found.items() if state not in (*FINAL, State.UNKNOWN)]


def _statuses(scene: Scene, request_ids: list[str]) -> dict[str, State]:
    found: dict[str, State] = {}
    for page in _pages(request_ids):
        found |= {one.request_id: one.state for one in scene.client.store.read_many(page)}
    return found


def _pages(request_ids: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(request_ids), READ_AT_ONCE):
        yield request_ids[first : first + READ_AT_ONCE]
