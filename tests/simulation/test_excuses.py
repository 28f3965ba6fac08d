"""An excuse for what a database has forgotten is as wide as that loss.

With one fact less there is a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery
from consumer.journal import JournalState, Row
from consumer.journal.claims.forgetting import PruneMark
from consumer.journal.losses.republish import RestoreTurn
from consumer.journal.records import FORGOTTEN as FORGOTTEN_CODE
from feedback.records.envelope import payload_sha256
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.samples import begin, delivery, row
from tests.simulation.ending import _counts, check_end
from tests.simulation.pool import SimulatedRun
from tests.simulation.processes import Violation
from tests.simulation.requests import HANDLERS, Act, collapsing
from tests.simulation.running import simulated
from tests.simulation.tables import Change
from tests.simulation.world import World

MINE, OTHERS = "external-park", "marked-query"
SHA = payload_sha256(b"k", b"5")
TOLD = Status("r0", State.SUCCEEDED, 1, 1, worker="w0.0", topic=MINE, payload_sha256=SHA)


@pytest.fixture
def world() -> Iterator[World]:
    """Yield a world in which a client wants `r0` of its topic, and a key is kept in another."""
    with simulated():
        made = World(1)
        made.handlers[OTHERS] = collapsing(HANDLERS[OTHERS])
        made.clients[0].plan = replace(made.clients[0].plan, topic=MINE)
        yield made


def _write(world: World, request_id: str, topic: str, state: JournalState, **facts: Any) -> Row:
    """Write a row that stands from now on."""
    made = row(request_id, state, topic=topic, message_key=b"k", published_at=None, **facts)
    world.database.rows[request_id] = made
    world.watch.changed(Change(None, made, "w0.0"))
    return made


def _forgets(world: World, request_id: str) -> None:
    world.losses.forgotten.add(request_id)
    world.database.rows.pop(request_id, None)


def _is_told(world: World, told: Status = TOLD) -> None:
    world.clients[0]._is_of_another_topic(told)


def _ends_and_is_forgotten(world: World) -> None:
    world.bank.charges["r0"] = 1
    _write(world, "r0", MINE, JournalState.SUCCEEDED)
    _forgets(world, "r0")


def test_what_a_client_is_told_of_its_forgotten_row_is_no_other_topics(world: World) -> None:
    _ends_and_is_forgotten(world)
    _write(world, "r0", OTHERS, JournalState.CLAIMED)
    _is_told(world)


@pytest.mark.parametrize(
    "told",
    [
        replace(TOLD, generation=2),
        replace(TOLD, state=State.FAILED),
        replace(TOLD, state=State.IN_DOUBT),
    ],
)
def test_an_end_that_no_row_of_its_topic_had_is_another_topics(world: World, told: Status) -> None:
    _ends_and_is_forgotten(world)
    # Another topic's row has each of these ends.
    world.losses.excused.add("r0")
    _write(world, "r0", OTHERS, JournalState(told.state.value), generation=told.generation)
    with pytest.raises(Violation, match="another topic's outcome"):
        _is_told(world, told)


def test_what_is_not_forgotten_is_another_topics(world: World) -> None:
    _ends_and_is_forgotten(world)
    world.losses.forgotten.clear()
    _write(world, "r0", OTHERS, JournalState.CLAIMED)
    with pytest.raises(Violation, match="another topic's outcome"):
        _is_told(world)


@pytest.mark.parametrize(
    ("changes", "is_forgotten", "is_written", "is_excused"),
    [
        ({}, True, True, True),
        ({"topic": OTHERS}, True, True, False),
        ({"generation": 2}, True, True, False),
        ({"worker_id": "w1.0"}, True, True, False),
        ({}, False, True, False),
        ({}, True, False, False),
    ],
)
def test_the_end_of_a_run_is_its_clients_although_it_is_written_over_another_topics_claim(
    world: World, changes: dict[str, Any], is_forgotten: bool, is_written: bool, is_excused: bool
) -> None:
    facts: Any = {"topic": MINE, "generation": 1, "worker_id": "w0.0"} | changes
    worker_id = facts.pop("worker_id")
    run: Any = SimpleNamespace(job=SimpleNamespace(**facts), worker_id=worker_id)
    world.watch._runs["r0"].append(run)
    if is_forgotten:
        _forgets(world, "r0")
    world.losses.excused.add("r0")
    world.bank.charges["r0"] = 1
    _write(world, "r0", OTHERS, JournalState.SUCCEEDED if is_written else JournalState.CLAIMED)
    if is_excused:
        _is_told(world)
    else:
        with pytest.raises(Violation, match="another topic's outcome"):
            _is_told(world)


def _skips(world: World) -> None:
    """Let one request end in the stead of another, and the database forget of both."""
    world.bank.charges["a"] = 1
    _write(world, "a", OTHERS, JournalState.SUCCEEDED)
    _write(world, "b", OTHERS, JournalState.SKIPPED, by="a")
    _forgets(world, "a")
    _forgets(world, "b")


@pytest.mark.parametrize("stands", [True, False])
def test_a_forgotten_skip_is_written_again_before_the_success(world: World, stands: bool) -> None:
    _skips(world)
    if stands:
        _write(world, "a", OTHERS, JournalState.CLAIMED)
    _write(world, "b", OTHERS, JournalState.SKIPPED, by="a")


@pytest.mark.parametrize("charges", [0, 2])
def test_a_forgotten_skip_is_not_written_again_for_what_was_not_charged_once(
    world: World, charges: int
) -> None:
    _skips(world)
    world.bank.charges["a"] = charges
    with pytest.raises(Violation, match="only what has succeeded"):
        _write(world, "b", OTHERS, JournalState.SKIPPED, by="a")


@pytest.mark.parametrize(("request_id", "topic"), [("c", OTHERS), ("b", MINE)])
def test_what_was_not_skipped_before_is_not_skipped_for_a_forgotten_success(
    world: World, request_id: str, topic: str
) -> None:
    _skips(world)
    with pytest.raises(Violation, match="only what has succeeded"):
        _write(world, request_id, topic, JournalState.SKIPPED, by="a")


def test_a_skip_is_not_written_for_a_success_that_is_not_forgotten(world: World) -> None:
    _skips(world)
    world.losses.forgotten.discard("a")
    with pytest.raises(Violation, match="only what has succeeded"):
        _write(world, "b", OTHERS, JournalState.SKIPPED, by="a")


HOLDS, IS_FORGOTTEN, UNCLAIMED, ACTS = "holds", "is_forgotten", "unclaimed", "acts"


WORD = "EXPIRED DEADLINE_OVER"


def _delivered(effect: EffectKind) -> Delivery:
    one = delivery("r0")
    return one._replace(handler=replace(one.handler, effect=effect))


def _peer_ends(world: World, facts: set[str]) -> None:
    """Let a peer end a request of which a living worker may have a run."""
    if HOLDS in facts:
        effect = EffectKind.EXTERNAL if ACTS in facts else EffectKind.MARKED
        begin(next(world.workers).worker._in_flight, _delivered(effect))
    if IS_FORGOTTEN in facts:
        _forgets(world, "r0")
    claimed_at = None if UNCLAIMED in facts else 1
    ended = row(
        "r0",
        JournalState.EXPIRED,
        topic=MINE,
        owner="peer",
        claimed_at=claimed_at,
        code="DEADLINE_OVER",
    )
    world.database.rows["r0"] = ended
    world.watch.changed(Change(None, ended, "peer"))


def _is_charged_after_the_word(world: World, word: str = WORD) -> None:
    world.watch.over("r0", word)
    world.bank.count("r0")
    world.watch.over("r0", word)


ALL_OF_IT = {HOLDS, IS_FORGOTTEN, UNCLAIMED, ACTS}


def test_nobody_is_blamed_for_the_end_of_a_request_whose_forgotten_run_goes_on(
    world: World,
) -> None:
    _peer_ends(world, ALL_OF_IT)
    _is_charged_after_the_word(world)
    # Its caller has asked anew.
    world.bank.count("r0.2")
    with pytest.raises(Violation, match="an effect happens once"):
        world.bank.count("r0")


def test_so_nobody_is_where_the_mark_of_that_run_was_let_in(world: World) -> None:
    _write(world, "r0", MINE, JournalState.CLAIMED, owner=next(world.workers).name, effect_at=1)
    _peer_ends(world, ALL_OF_IT - {ACTS})
    _is_charged_after_the_word(world)


@pytest.mark.parametrize("word", ["FAILED CHILD_DIED", "EXPIRED"])
def test_any_other_word_about_such_a_request_is_to_be_relied_on(world: World, word: str) -> None:
    _peer_ends(world, ALL_OF_IT)
    with pytest.raises(Violation, match="told that nothing happened"):
        _is_charged_after_the_word(world, word)


def test_a_word_about_another_request_of_the_order_is_to_be_relied_on(world: World) -> None:
    _peer_ends(world, ALL_OF_IT)
    world.watch.over("r0.2", WORD)
    with pytest.raises(Violation, match="told that nothing happened"):
        world.bank.count("r0.2")


def test_an_order_is_charged_once_where_nobody_was_told_such_a_word(world: World) -> None:
    _peer_ends(world, ALL_OF_IT)
    world.bank.count("r0")
    with pytest.raises(Violation, match="an effect happens once"):
        world.bank.count("r0.2")


@pytest.mark.parametrize("lacks", sorted(ALL_OF_IT))
def test_the_end_of_a_request_is_to_be_relied_on_without_all_of_that(
    world: World, lacks: str
) -> None:
    _peer_ends(world, ALL_OF_IT - {lacks})
    with pytest.raises(Violation, match="told that nothing happened"):
        _is_charged_after_the_word(world)


def test_the_journal_has_to_know_of_such_a_charge(world: World) -> None:
    _peer_ends(world, ALL_OF_IT)
    world.bank.count("r0")
    with pytest.raises(Violation, match="no wrong outcome"):
        check_end(world)


@pytest.mark.parametrize("state", [JournalState.IN_DOUBT, JournalState.SUCCEEDED])
@pytest.mark.parametrize(
    ("owner", "facts", "is_excused"),
    [
        ("w0.0", {IS_FORGOTTEN, UNCLAIMED}, True),
        ("w1.0", {IS_FORGOTTEN, UNCLAIMED}, False),
        ("w0.0", {UNCLAIMED}, False),
        ("w0.0", {IS_FORGOTTEN}, False),
    ],
)
def test_a_forgotten_run_that_may_have_acted_comes_over_the_end_of_who_knew_of_none(
    world: World, state: JournalState, owner: str, facts: set[str], is_excused: bool
) -> None:
    _write(world, "r0", MINE, JournalState.CLAIMED, owner="w0.0")
    _peer_ends(world, facts)
    world.bank.charges["r0"] = 1
    _comes_over_it(world, state, owner, is_excused=is_excused)


def _comes_over_it(world: World, state: JournalState, owner: str, *, is_excused: bool) -> None:
    before = world.database.rows["r0"]
    after = before._replace(state=state, owner=owner, claimed_at=1)
    if is_excused:
        world.watch.changed(Change(before, after, owner))
    else:
        with pytest.raises(Violation, match="what has ended stays"):
            world.watch.changed(Change(before, after, owner))


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize("effect_at", [None, 1])
def test_a_forgotten_run_without_a_charge_comes_over_it_where_a_child_had_it_and_its_effect_began(
    world: World, is_given: bool, effect_at: int | None
) -> None:
    claimed = _write(world, "r0", MINE, JournalState.CLAIMED, owner="w0.0", effect_at=effect_at)
    if is_given:
        _is_given(world, claimed)
    _peer_ends(world, {IS_FORGOTTEN, UNCLAIMED})
    is_excused = is_given and effect_at is not None
    _comes_over_it(world, JournalState.IN_DOUBT, "w0.0", is_excused=is_excused)


def _is_given(world: World, row: Row) -> None:
    where = (row.topic, row.partition)
    world.kafka.ever_committed[where] = row.offset + 1
    job: Any = SimpleNamespace(
        request_id=row.request_id,
        generation=row.generation,
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        key=b"k",
        value=b"5",
    )
    world.database.rows[row.request_id] = row._replace(payload_sha256=SHA)
    world.watch.dispatched(row.owner, [job])


def _claims_anew(world: World, *, claimed_at: int = 2) -> Row:
    """Let w0.0 claim a request, the database forget of that, and w1.0 claim it, which lives."""
    _write(world, "r0", MINE, JournalState.CLAIMED, owner="w0.0", claimed_at=1, effect_at=1)
    _forgets(world, "r0")
    world.database.leases["w1.0"] = world.database.now_ms() + 1_000
    return _write(
        world, "r0", MINE, JournalState.CLAIMED, owner="w1.0", claimed_at=claimed_at, effect_at=1
    )


def _ends(world: World, by: str, state: JournalState) -> None:
    before = world.database.rows["r0"]
    world.watch.changed(Change(before, before._replace(state=state), by))


@pytest.mark.parametrize("state", [JournalState.FAILED, JournalState.SKIPPED, JournalState.EXPIRED])
@pytest.mark.parametrize("doubted", [True, False])
def test_there_is_no_excuse_for_a_word_about_the_run_of_another(
    world: World, state: JournalState, doubted: bool
) -> None:
    _claims_anew(world)
    world.losses.excused.add("r0")
    if doubted:
        _write(world, "r0", MINE, JournalState.IN_DOUBT, owner="w1.0", claimed_at=2)
        world.database.leases.clear()
    with pytest.raises(Violation, match="an end tells of its own run"):
        _ends(world, "w0.0", state)
    _ends(world, "w1.0", state)


@pytest.mark.parametrize("is_over", [True, False])
def test_who_has_the_very_claim_or_sweeps_a_dead_one_may_say_so(
    world: World, is_over: bool
) -> None:
    _claims_anew(world, claimed_at=2 if is_over else 1)
    if is_over:
        world.database.leases.clear()
    _ends(world, "w0.0", JournalState.FAILED)


@pytest.mark.parametrize(("is_given", "is_known"), [(True, True), (True, False), (False, False)])
def test_an_end_that_acted_comes_over_a_living_claim_only_where_its_own_is_forgotten(
    world: World, is_given: bool, is_known: bool
) -> None:
    _claims_anew(world)
    world.bank.charges["r0"] = int(is_given)
    if is_known:
        world.losses.forgotten.clear()
    before = world.database.rows["r0"]
    after = before._replace(state=JournalState.IN_DOUBT, owner="w0.0", claimed_at=1)
    if is_given and not is_known:
        world.watch.changed(Change(before, after, "w0.0"))
    else:
        with pytest.raises(Violation, match="takes the claims of a worker whose lease holds"):
            world.watch.changed(Change(before, after, "w0.0"))


@pytest.mark.parametrize("was_unknown", [True, False])
def test_a_second_run_is_excused_by_what_was_known_when_it_was_claimed(
    world: World, was_unknown: bool
) -> None:
    if not was_unknown:
        world.losses.known_again.add("r0")
    _claims_anew(world)
    # Its own worker has written the end of the first one before the second begins.
    world.losses.known_again.add("r0")
    handler = HANDLERS[MINE]
    job: Any = SimpleNamespace(
        request_id="r0", generation=1, topic=MINE, partition=0, offset=0, voids=0
    )
    first, second = (
        SimulatedRun(job, Act.SUCCEEDS, handler, worker_id) for worker_id in ("w0.0", "w1.0")
    )
    world.watch.started(first)
    if was_unknown:
        world.watch.started(second)
    else:
        with pytest.raises(Violation, match="no second run"):
            world.watch.started(second)


FORGOTTEN, UNLOOKED, DUE, WAITS = "forgotten", "unlooked", "due", "waits"
IN_JOURNAL, HELD = "in_journal", "held"


def _loses_its_place(world: World, *, is_emptied: bool) -> None:
    world.redis._remember()
    world.redis.deadlines["r0"] = 0
    if is_emptied:
        world.redis.flush()
    else:
        world.redis.go_back(1)


@pytest.mark.parametrize("is_emptied", [True, False])
@pytest.mark.parametrize("is_foreign", [True, False])
@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({FORGOTTEN, UNLOOKED}, False),
        ({FORGOTTEN}, True),
        ({UNLOOKED}, True),
        ({FORGOTTEN, UNLOOKED, DUE}, True),
        ({FORGOTTEN, UNLOOKED, WAITS}, True),
        ({FORGOTTEN, UNLOOKED, IN_JOURNAL}, True),
        ({FORGOTTEN, UNLOOKED, HELD}, True),
    ],
)
def test_an_end_is_promised_unless_the_due_set_and_the_journal_have_lost_the_request(
    world: World, facts: set[str], counts: bool, is_foreign: bool, is_emptied: bool
) -> None:
    if is_foreign and WAITS in facts:
        return
    client = world.clients[0]
    topic = sorted(world.kafka.logs)[0][0]
    client.plan = replace(client.plan, is_foreign=is_foreign, waits=WAITS in facts, topic=topic)
    client._produce()
    world.was_emptied = True
    if FORGOTTEN in facts:
        _forgets(world, "r0")
    if UNLOOKED in facts:
        _loses_its_place(world, is_emptied=is_emptied)
    world.redis.hashes["r0"] = {"status": "RUNNING"}
    if DUE in facts:
        world.redis.deadlines["r0"] = 0
    if IN_JOURNAL in facts:
        _write(world, "r0", topic, JournalState.CLAIMED)
    if HELD in facts:
        worker = next(world.workers).worker
        begin(worker._in_flight, delivery("r0"))
    assert _counts(world, client, "r0") is counts


@pytest.mark.parametrize("was_due", [True, False])
def test_an_older_due_set_has_lost_those_that_came_since(world: World, was_due: bool) -> None:
    if was_due:
        world.redis.deadlines["r0"] = 0
    _loses_its_place(world, is_emptied=False)
    assert world.redis.unlooked == (set() if was_due else {"r0"})


SERVED, STANDS, OWED, STAYED, LATER = "served", "stands", "owed", "stayed", "later"
AGAIN = "again"


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({SERVED}, False),
        (set(), True),
        ({SERVED, STANDS}, True),
        ({SERVED, OWED}, True),
        ({SERVED, STAYED}, True),
        ({SERVED, LATER}, True),
        ({SERVED, AGAIN}, True),
        ({SERVED, WAITS}, True),
    ],
)
def test_an_end_is_promised_unless_its_row_comes_back_told_after_redis_was_told_again(
    world: World, facts: set[str], counts: bool
) -> None:
    client = world.clients[0]
    topic = sorted(world.kafka.logs)[0][0]
    client.plan = replace(client.plan, is_foreign=False, waits=WAITS in facts, topic=topic)
    client._produce()
    world.bank.charges["r0"] = 1
    row = _write(world, "r0", topic, JournalState.SUCCEEDED)
    told_at = None if OWED in facts else world.database.now_ms()
    world.database.rows["r0"] = row._replace(published_at=told_at)
    world.losses.before_commit(world.clock.true_ms)
    if STAYED not in facts:
        world.database.rows.pop("r0")
    world.redis.come_back_empty()
    world.lose_statuses()
    if SERVED in facts:
        served = (world.redis.contents,)
        world.database._republishing = RestoreTurn(served=served)
    if STANDS in facts:
        world.redis.hashes["r0"] = {"status": "SUCCEEDED"}
    world.database.register("w0.0", 1)
    world.forget_commits(1)
    assert "r0" in world.database.rows
    if AGAIN in facts:
        world.database.rows["r0"] = world.database.rows["r0"]._replace(generation=2)
    if LATER in facts:
        world.redis.come_back_empty()
        world.lose_statuses()
    assert _counts(world, client, "r0") is counts


def _is_read_again_when_pruned(world: World, **end: Any) -> Row:
    """Write the doubt about a request that the journal had ended so, and has pruned."""
    world.bank.charges["r0"] = 1
    pruned: dict[str, Any] = {"generation": 2, "owner": "w0.0", "result": "null"} | end
    topic = pruned.pop("topic", MINE)
    ended = _write(world, "r0", topic, JournalState.SUCCEEDED, **pruned)
    world.database.rows.pop("r0")
    for name in (MINE, OTHERS):
        world.database.forgotten[name, ended.partition] = PruneMark(ended.offset + 1, 0)
    world.watch.pruned(["r0"])
    return _write(world, "r0", MINE, JournalState.IN_DOUBT, code=FORGOTTEN_CODE)


def _is_brought_forward(world: World, doubt: Row, **end: Any) -> None:
    told: dict[str, Any] = {"generation": 2, "state": "SUCCEEDED", "owner": "w0.0", "code": None}
    told |= end
    world.bank.charges["r0"] = int(told["state"] == "SUCCEEDED")
    world.watch.changed(Change(doubt, doubt._replace(**told), "w1.0"))


def test_a_doubt_about_a_pruned_success_ends_as_that_success(world: World) -> None:
    _is_brought_forward(world, _is_read_again_when_pruned(world))


@pytest.mark.parametrize(
    ("pruned", "told"),
    [
        ({}, {"generation": 3}),
        ({}, {"state": "FAILED"}),
        ({}, {"state": "EXPIRED"}),
        ({}, {"state": "CLAIMED"}),
        ({}, {"owner": "w1.0"}),
        ({}, {"result": "1"}),
        ({"generation": 1}, {}),
        ({"topic": OTHERS}, {}),
    ],
)
def test_a_doubt_about_a_pruned_success_ends_as_no_other(
    world: World, pruned: dict[str, Any], told: dict[str, Any]
) -> None:
    doubt = _is_read_again_when_pruned(world, **pruned)
    with pytest.raises(Violation, match="what has ended stays"):
        _is_brought_forward(world, doubt, **told)


def test_a_doubt_that_no_pruning_has_made_ends_as_no_later_success(world: World) -> None:
    doubt = _is_read_again_when_pruned(world)._replace(code="WORKER_DIED")
    with pytest.raises(Violation, match="what has ended stays"):
        _is_brought_forward(world, doubt)
