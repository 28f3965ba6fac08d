"""Which letters may be sent back: every combination that the rule tells apart."""

from __future__ import annotations

import pytest

from consumer.journal import JournalState
from consumer.journal.actions import Action, ActionKind
from consumer.journal.records import Row
from consumer.journal.redrive.redrive_rule import (
    IN_WORDS,
    DiscardVerdict,
    Redrivable,
    RedriveCandidate,
    RedriveWish,
    can_be_undone,
    decide,
    sent_before_count,
)
from consumer.journal.redrive.reopening import TO_SEND
from tests.consumer.journal.samples import OTHER_SHA, SHA, row

NOW = 1_000
WISH = RedriveWish("mine")


def failed(**changes: object) -> Row:
    """Return the row of a request that ran once and failed for good."""
    given = {"state": JournalState.FAILED, "claimed_at": 10, "finished_at": 20, "deadline_at": 500}
    return row("a", **(given | changes))


def letter(**changes: object) -> RedriveCandidate:
    """Return its letter."""
    given: dict[str, object] = {
        "request_id": "a",
        "generation": 1,
        "payload_sha256": SHA,
        "redrive_count": 0,
    }
    return RedriveCandidate(**(given | changes))  # type: ignore[arg-type]


def did(
    kind: ActionKind, *, redrive: str | None = None, generation: int | None = 1, at: int = 30
) -> Action:
    return Action("a", kind.value, "zoe", at, None, redrive, generation)


MINE = did(ActionKind.REDRIVE, redrive="mine")


def test_what_failed_for_good_is_sent_whatever_its_deadline_was() -> None:
    assert decide(letter(), failed(), NOW, actions=(), wish=WISH) is Redrivable.SEND
    later = failed(deadline_at=NOW + 1)
    assert decide(letter(), later, NOW, actions=(), wish=WISH) is Redrivable.SEND


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (JournalState.CLAIMED, Redrivable.RUNNING),
        (JournalState.RETRYING, Redrivable.RUNNING),
        (JournalState.SUCCEEDED, Redrivable.DONE),
        (JournalState.SKIPPED, Redrivable.DONE),
        (JournalState.IN_DOUBT, Redrivable.IN_DOUBT),
        (JournalState.EXPIRED, Redrivable.EXPIRED),
    ],
)
def test_what_has_not_failed_is_left(state: JournalState, why: Redrivable) -> None:
    assert decide(letter(), failed(state=state), NOW, actions=(), wish=WISH) is why


def test_every_state_of_a_row_has_an_answer() -> None:
    sent = {
        state
        for state in JournalState
        if decide(letter(), failed(state=state), NOW, actions=(), wish=WISH) in TO_SEND
    }
    assert sent == {JournalState.FAILED}


def test_every_refusal_has_words() -> None:
    assert set(Redrivable) - TO_SEND - {Redrivable.SENT} == set(IN_WORDS)


def test_what_was_reopened_is_left_until_its_deadline_is_over() -> None:
    open_still = failed(resend=True, deadline_at=NOW + 1)
    assert decide(letter(), open_still, NOW, actions=(), wish=WISH) is Redrivable.ON_ITS_WAY
    over = failed(resend=True, deadline_at=NOW)
    assert decide(letter(), over, NOW, actions=(), wish=WISH) is Redrivable.SEND


def test_only_the_letter_of_the_last_failure_counts() -> None:
    again = failed(generation=2)
    assert decide(letter(), again, NOW, actions=(), wish=WISH) is Redrivable.OLDER_FAILURE
    assert decide(letter(generation=2), again, NOW, actions=(), wish=WISH) is Redrivable.SEND
    foreign = letter(generation=None)
    assert decide(foreign, again, NOW, actions=(), wish=WISH) is Redrivable.SEND


def test_a_letter_of_what_never_ran_says_so() -> None:
    refused = failed(claimed_at=None)
    assert decide(letter(generation=0), refused, NOW, actions=(), wish=WISH) is Redrivable.SEND
    kind = decide(letter(generation=0), failed(), NOW, actions=(), wish=WISH)
    assert kind is Redrivable.OLDER_FAILURE


def test_another_payload_or_another_id_is_left() -> None:
    other = letter(payload_sha256=OTHER_SHA)
    assert decide(other, failed(), NOW, actions=(), wish=WISH) is Redrivable.PAYLOAD_MISMATCH
    taken = letter(is_anothers=True)
    assert decide(taken, failed(), NOW, actions=(), wish=WISH) is Redrivable.ANOTHERS_ID
    replacing = WISH._replace(replaces=True)
    assert decide(taken, failed(), NOW, actions=(), wish=replacing) is Redrivable.SEND


def test_what_goes_round_in_circles_is_left() -> None:
    for count, kind in ((2, Redrivable.SEND), (3, Redrivable.TOO_OFTEN)):
        one = letter(redrive_count=count)
        assert decide(one, failed(), NOW, actions=(), wish=WISH) is kind


def test_what_is_unknown_is_sent_once_for_each_failure_unless_told_otherwise() -> None:
    wish = WISH._replace(takes_unknown=True)
    sent = [did(ActionKind.REDRIVE, redrive="other", generation=None)]
    assert decide(letter(), None, NOW, actions=sent, wish=wish) is Redrivable.SENT_BEFORE
    again = wish._replace(sends_again=True)
    assert decide(letter(), None, NOW, actions=sent, wish=again) is Redrivable.SEND_UNKNOWN
    failed_again = letter(redrive_count=1, redrive_id="other")
    assert decide(failed_again, None, NOW, actions=sent, wish=wish) is Redrivable.SEND_UNKNOWN
    taken_back = [*sent, did(ActionKind.CANCEL, redrive="other", generation=None)]
    assert decide(letter(), None, NOW, actions=taken_back, wish=wish) is Redrivable.SEND_UNKNOWN


def test_each_sending_of_what_is_unknown_counts_unless_it_was_taken_back_or_failed_again() -> None:
    sent = [did(ActionKind.REDRIVE, redrive="other", generation=None)]
    assert [sent_before_count(letter(), sent * times) for times in range(3)] == [0, 1, 2]
    assert sent_before_count(letter(redrive_count=1, redrive_id="other"), sent) == 0
    taken_back = [*sent, did(ActionKind.CANCEL, redrive="other", generation=None)]
    assert sent_before_count(letter(), taken_back) == 0
    # Its row was pruned since.
    assert sent_before_count(letter(), [did(ActionKind.REDRIVE)]) == 1


@pytest.mark.parametrize("generation", [None, 1])
def test_once_more_is_of_what_others_had_sent_before_it_began(generation: int | None) -> None:
    wish = WISH._replace(takes_unknown=True, sends_again=True, began_at=50)
    early = did(ActionKind.REDRIVE, redrive="early", generation=generation)
    assert decide(letter(), None, NOW, actions=[early], wish=wish) is Redrivable.SEND_UNKNOWN
    # In the same millisecond it may have been later.
    for at, found in ((49, Redrivable.SEND_UNKNOWN), (50, Redrivable.SENT_BEFORE)):
        other = did(ActionKind.REDRIVE, redrive="other", generation=generation, at=at)
        actions = [early, other]
        assert decide(letter(), None, NOW, actions=actions, wish=wish) is found
        rehearsed = wish._replace(began_at=None)
        assert decide(letter(), None, NOW, actions=actions, wish=rehearsed) is (
            Redrivable.SEND_UNKNOWN
        )
        taken_back = did(ActionKind.CANCEL, redrive="other", generation=generation, at=51)
        actions.append(taken_back)
        assert decide(letter(), None, NOW, actions=actions, wish=wish) is Redrivable.SEND_UNKNOWN


def test_once_more_that_goes_on_leaves_what_another_has_sent_since() -> None:
    wish = RedriveWish("mine", frozenset({"a"}), takes_unknown=True, sends_again=True, began_at=50)
    mine = did(ActionKind.REDRIVE, redrive="mine", generation=None, at=60)
    other = did(ActionKind.REDRIVE, redrive="other", generation=None, at=70)
    assert decide(letter(), None, NOW, actions=[mine], wish=wish) is Redrivable.AGAIN
    assert decide(letter(), None, NOW, actions=[mine, other], wish=wish) is Redrivable.SENT_BEFORE
    # One that was cut off before it came to the letter.
    assert decide(letter(), None, NOW, actions=[other], wish=wish) is Redrivable.SENT_BEFORE
    # Its row was pruned since: nobody knows whether it has run.
    reopened = [mine._replace(generation=1)]
    assert decide(letter(), None, NOW, actions=reopened, wish=wish) is Redrivable.SENT_BEFORE


def test_what_was_sent_from_elsewhere_and_failed_again_is_sent_here_once() -> None:
    wish = WISH._replace(takes_unknown=True)
    elsewhere = letter(generation=None, redrive_count=1, redrive_id="without a journal")
    assert decide(elsewhere, None, NOW, actions=(), wish=wish) is Redrivable.SEND_UNKNOWN
    sent = [did(ActionKind.REDRIVE, redrive="first", generation=None)]
    assert decide(elsewhere, None, NOW, actions=sent, wish=wish) is Redrivable.SENT_BEFORE
    without_id = elsewhere._replace(redrive_id=None, redrive_count=2)
    assert decide(without_id, None, NOW, actions=sent, wish=wish) is Redrivable.SENT_BEFORE
    failed_again = elsewhere._replace(redrive_count=2, redrive_id="first")
    assert decide(failed_again, None, NOW, actions=sent, wish=wish) is Redrivable.SEND_UNKNOWN
    later = [*sent, did(ActionKind.REDRIVE, redrive="second", generation=None)]
    assert decide(failed_again, None, NOW, actions=later, wish=wish) is Redrivable.SENT_BEFORE


def test_a_letter_of_another_system_whose_row_was_pruned_was_sent_back() -> None:
    wish = WISH._replace(takes_unknown=True)
    sent = [did(ActionKind.REDRIVE, redrive="other")]
    theirs = letter(generation=None)
    assert decide(theirs, None, NOW, actions=sent, wish=wish) is Redrivable.SENT_BEFORE
    again = theirs._replace(redrive_count=1, redrive_id="other")
    assert decide(again, None, NOW, actions=sent, wish=wish) is Redrivable.SEND_UNKNOWN


def test_what_one_redrive_takes_back_another_has_sent_all_the_same() -> None:
    wish = WISH._replace(takes_unknown=True)
    sent = did(ActionKind.REDRIVE, redrive="first", generation=None)
    replaced = did(ActionKind.DISCARD, redrive="second", generation=None)
    refused = did(ActionKind.CANCEL, redrive="second", generation=None)
    actions = [sent, replaced, refused]
    assert decide(letter(), None, NOW, actions=actions, wish=wish) is Redrivable.SENT_BEFORE


def test_what_is_unknown_is_sent_only_when_that_was_said() -> None:
    assert decide(letter(), None, NOW, actions=(), wish=WISH) is Redrivable.NO_ROW
    wish = WISH._replace(takes_unknown=True)
    assert decide(letter(), None, NOW, actions=(), wish=wish) is Redrivable.SEND_UNKNOWN
    discarded = [did(ActionKind.DISCARD, generation=None)]
    assert decide(letter(), None, NOW, actions=discarded, wish=wish) is Redrivable.DISCARDED


def test_a_discard_holds_for_its_failure_until_it_is_taken_back() -> None:
    discarded = [did(ActionKind.DISCARD)]
    assert decide(letter(), failed(), NOW, actions=discarded, wish=WISH) is Redrivable.DISCARDED
    again = failed(generation=2)
    one = letter(generation=2)
    assert decide(one, again, NOW, actions=discarded, wish=WISH) is Redrivable.SEND
    taken_back = [*discarded, did(ActionKind.CANCEL, redrive="other")]
    assert decide(letter(), failed(), NOW, actions=taken_back, wish=WISH) is Redrivable.SEND


def test_what_was_decided_of_a_failure_holds_when_its_row_is_pruned() -> None:
    wish = WISH._replace(takes_unknown=True)
    for kind, found in (
        (ActionKind.DISCARD, Redrivable.DISCARDED),
        (ActionKind.REDRIVE, Redrivable.SENT_BEFORE),
    ):
        done = [did(kind, redrive=None)]
        assert decide(letter(), None, NOW, actions=done, wish=wish) is found
        assert decide(letter(generation=0), None, NOW, actions=done, wish=wish) is found
        # Of another failure of it nothing was decided.
        again = letter(generation=2)
        assert decide(again, None, NOW, actions=done, wish=wish) is Redrivable.SEND_UNKNOWN
        taken_back = [*done, did(ActionKind.CANCEL)]
        assert decide(letter(), None, NOW, actions=taken_back, wish=wish) is (
            Redrivable.SEND_UNKNOWN
        )
    undone = [did(ActionKind.DISCARD), did(ActionKind.UNDO, generation=None)]
    assert decide(letter(), None, NOW, actions=undone, wish=wish) is Redrivable.SEND_UNKNOWN


OUR_DISCARD, OUR_UNDO = did(ActionKind.DISCARD), did(ActionKind.UNDO)
THEIRS, THEIR_UNDO = (did(one, generation=None) for one in (ActionKind.DISCARD, ActionKind.UNDO))
REPLACED = did(ActionKind.DISCARD, redrive="other")


@pytest.mark.parametrize(
    ("actions", "is_closed"),
    [
        ([OUR_DISCARD, THEIRS, THEIR_UNDO], True),
        ([THEIRS, OUR_DISCARD, THEIR_UNDO], True),
        ([OUR_DISCARD, THEIRS, THEIR_UNDO, THEIRS, THEIR_UNDO], True),
        ([OUR_DISCARD, OUR_UNDO, OUR_DISCARD, THEIRS, THEIR_UNDO], True),
        # Of our own undo without a row nobody knows more: each takes one discard back.
        ([OUR_DISCARD, THEIRS, THEIR_UNDO, THEIR_UNDO], False),
        ([OUR_DISCARD, THEIR_UNDO], False),
        ([OUR_DISCARD, OUR_UNDO, THEIRS, THEIR_UNDO], False),
        ([OUR_DISCARD, OUR_UNDO], False),
        ([THEIRS, THEIR_UNDO], False),
        ([THEIR_UNDO, OUR_DISCARD], True),
    ],
)
def test_the_undo_of_another_system_s_discard_opens_no_failure_of_ours_that_was_pruned(
    actions: list[Action], is_closed: bool
) -> None:
    wish = WISH._replace(takes_unknown=True)
    expected = Redrivable.DISCARDED if is_closed else Redrivable.SEND_UNKNOWN
    assert decide(letter(), None, NOW, actions=actions, wish=wish) is expected
    unnumbered = letter(generation=None)
    assert decide(unnumbered, None, NOW, actions=actions, wish=wish) is expected
    assert can_be_undone(actions, None) is (
        DiscardVerdict.UNDONE if is_closed else DiscardVerdict.NOT_DISCARDED
    )


def test_what_was_replaced_stays_so_when_another_system_s_discard_is_undone() -> None:
    for actions in ([REPLACED, THEIRS, THEIR_UNDO], [THEIRS, REPLACED, THEIR_UNDO]):
        assert can_be_undone(actions, None) is DiscardVerdict.REPLACED
    refused = did(ActionKind.CANCEL, redrive="other")
    assert (
        can_be_undone([REPLACED, THEIRS, refused, THEIR_UNDO], None) is DiscardVerdict.NOT_DISCARDED
    )


def test_what_this_redrive_has_reopened_is_sent_again_only_where_kafka_lacks_it() -> None:
    reopened = failed(resend=True, deadline_at=NOW + 1)
    owed = WISH._replace(owed=frozenset({"a"}))
    assert decide(letter(), reopened, NOW, actions=[MINE], wish=WISH) is Redrivable.SENT
    assert decide(letter(), reopened, NOW, actions=[MINE], wish=owed) is Redrivable.AGAIN
    # Its time is over: reopened anew.
    over = failed(resend=True, deadline_at=NOW)
    assert decide(letter(), over, NOW, actions=[MINE], wish=owed) is Redrivable.SEND
    # Its client's resend was quicker.
    quicker = {JournalState.CLAIMED: Redrivable.RUNNING, JournalState.SUCCEEDED: Redrivable.DONE}
    for state, why in quicker.items():
        running = failed(state=state, generation=2)
        assert decide(letter(), running, NOW, actions=[MINE], wish=owed) is why
    for resend in (False, True):
        failed_again = failed(generation=2, resend=resend, deadline_at=NOW + 1)
        found = decide(letter(), failed_again, NOW, actions=[MINE], wish=owed)
        assert found is Redrivable.OLDER_FAILURE
    # Its client's resend came too late, and closed it.
    assert decide(letter(), failed(), NOW, actions=[MINE], wish=owed) is Redrivable.SEND


@pytest.mark.parametrize("replaces", [False, True])
def test_of_a_row_that_was_pruned_since_nobody_knows_whether_it_has_run(replaces: bool) -> None:
    kind = ActionKind.DISCARD if replaces else ActionKind.REDRIVE
    owed = WISH._replace(owed=frozenset({"a"}), replaces=replaces)
    mine = [did(kind, redrive="mine")]
    # The new request needs no row; of one that was to run itself nobody knows whether it has.
    since = Redrivable.AGAIN if replaces else Redrivable.SENT_BEFORE
    assert decide(letter(), None, NOW, actions=mine, wish=owed) is since
    never_had_one = [did(kind, redrive="mine", generation=None)]
    assert decide(letter(), None, NOW, actions=never_had_one, wish=owed) is Redrivable.AGAIN


def test_a_later_failure_of_what_this_redrive_sent_is_another_case() -> None:
    again = failed(generation=2)
    one = letter(generation=2)
    assert decide(one, again, NOW, actions=[MINE], wish=WISH) is Redrivable.SEND


def test_a_replacement_that_kafka_lacks_is_sent_again_though_the_old_one_is_closed() -> None:
    wish = WISH._replace(replaces=True, owed=frozenset({"a"}))
    closed = [did(ActionKind.DISCARD, redrive="mine")]
    assert decide(letter(), failed(), NOW, actions=closed, wish=wish) is Redrivable.AGAIN
    unknown = wish._replace(takes_unknown=True)
    gone = [did(ActionKind.DISCARD, redrive="mine", generation=None)]
    assert decide(letter(), None, NOW, actions=gone, wish=unknown) is Redrivable.AGAIN


def test_what_another_redrive_took_after_the_deadline_is_sent_by_one_of_them() -> None:
    both = [MINE, did(ActionKind.REDRIVE, redrive="other")]
    reopened = failed(resend=True, deadline_at=NOW + 1)
    owed = WISH._replace(owed=frozenset({"a"}))
    assert decide(letter(), reopened, NOW, actions=both, wish=owed) is Redrivable.ON_ITS_WAY
    assert decide(letter(), reopened, NOW, actions=both, wish=WISH) is Redrivable.SENT
    theirs = RedriveWish("other", owed=frozenset({"a"}))
    assert decide(letter(), reopened, NOW, actions=both, wish=theirs) is Redrivable.AGAIN
    unknown = [one._replace(generation=None) for one in both]
    takes = owed._replace(takes_unknown=True)
    assert decide(letter(), None, NOW, actions=unknown, wish=takes) is Redrivable.SENT_BEFORE


@pytest.mark.parametrize("replaces", [False, True])
def test_what_this_redrive_has_taken_back_is_anybodys(replaces: bool) -> None:
    wish = WISH._replace(replaces=replaces, owed=frozenset({"a"}))
    taken = did(ActionKind.DISCARD if replaces else ActionKind.REDRIVE, redrive="mine")
    back = [taken, did(ActionKind.CANCEL, redrive="mine")]
    assert decide(letter(), failed(), NOW, actions=back, wish=wish) is Redrivable.SEND
    reopened = failed(resend=True, deadline_at=NOW + 1)
    others = [*back, did(ActionKind.REDRIVE, redrive="other")]
    assert decide(letter(), reopened, NOW, actions=others, wish=wish) is Redrivable.ON_ITS_WAY
    done = failed(state=JournalState.SUCCEEDED, generation=2)
    assert decide(letter(), done, NOW, actions=others, wish=wish) is Redrivable.DONE


@pytest.mark.parametrize("by", [None, "another"])
def test_what_was_closed_after_a_reopening_that_never_came_is_sent_by_no_resume(
    by: str | None,
) -> None:
    over = failed(resend=True, deadline_at=NOW)
    closed = (MINE, did(ActionKind.DISCARD, redrive=by))
    owes = WISH._replace(owed=frozenset({"a"}))
    assert decide(letter(), over, NOW, actions=closed, wish=owes) is Redrivable.DISCARDED
    unknown = tuple(one._replace(generation=None) for one in closed)
    assert decide(letter(), None, NOW, actions=unknown, wish=owes) is Redrivable.DISCARDED
    undone = (*closed, did(ActionKind.UNDO))
    assert decide(letter(), over, NOW, actions=undone, wish=owes) is Redrivable.SEND
