"""The end of a row: everybody told, statuses at rest, and the account of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from feedback.clock import monotonic_s
from feedback.status import State
from tests.chaos.account import Account, Told, settle_account, unsettled
from tests.chaos.figure import Figure
from tests.chaos.scene import Scene
from tests.chaos.tickets import Ticket

READ_AT_ONCE = 1_000
LOOK_EVERY_S = 0.5


def close_account(scene: Scene) -> Account:
    """Wait until all is told and at rest, for as long as the row allows, and return the account."""
    scene.await_told()
    tickets = dict(scene.clients.tickets)
    # From here on nobody is told in time any more.
    first = {one: (ticket.told, ticket.wait_s) for one, ticket in tickets.items()}
    last, journal = _at_rest(scene, tickets)
    told = {
        one: Told(first[one][0], last[one], ticket.later, first[one][1])
        for one, ticket in tickets.items()
    }
    charges = Counter(scene.bank_account().charges)
    charges.update(scene.journal.charges())
    resent = max(0, scene.topics.records() - len(tickets))
    return settle_account(told, charges=charges, journal=journal, resent=resent)


def common_figures(scene: Scene) -> list[Figure]:
    """Return what holds for every row."""
    ended = scene.fleet.ended_by_themselves
    if not scene.resender.is_alive:
        ended.append(f"{scene.resender.name} ended with {scene.resender.exit_code}")
    what = "processes that ended by themselves"
    if ended:
        what += f": {'; '.join(ended)}"
    return [Figure(what, len(ended), most=0)]


def _at_rest(scene: Scene, tickets: dict[str, Ticket]) -> tuple[dict[str, State], dict[str, str]]:
    """Return statuses and journal when they agree, or as they are after `settle_s`."""
    deadline_s = monotonic_s() + scene.row.settle_s
    last: dict[str, State] = {}
    open_ids: Iterable[str] = tickets
    while True:
        last |= _statuses(scene, list(open_ids))
        journal = scene.journal.states()
        open_ids = unsettled({one: Told(None, state) for one, state in last.items()}, journal)
        if not open_ids or monotonic_s() >= deadline_s:
            # Once more for all: what agreed before might have been changed since.
            return _statuses(scene, list(tickets)), scene.journal.states()
        scene.pause(LOOK_EVERY_S)


def _statuses(scene: Scene, request_ids: list[str]) -> dict[str, State]:
    found: dict[str, State] = {}
    for first in range(0, len(request_ids), READ_AT_ONCE):
        page = request_ids[first : first + READ_AT_ONCE]
        found |= {one.request_id: one.state for one in scene.client.store.read_many(page)}
    return found
