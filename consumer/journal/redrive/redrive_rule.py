"""Which dead letters may be sent back, as a pure function of the letter, the row and the clock.

A decision of this rule is carried out in the same transaction, on rows that are locked before they
are read: two redrives, or a redrive and a discard, never both have their way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from consumer.journal.actions import Action, ActionKind
from consumer.journal.records import JournalState, Row


class Redrivable(StrEnum):
    """The verdict on a letter that is to be redriven."""

    SEND = "send"  # its FAILED row is reopened
    SEND_UNKNOWN = "send_unknown"  # it has no row, and that was said to be no hindrance
    AGAIN = "again"  # this redrive has reopened it, and nobody knows that Kafka has it
    SENT = "sent"  # this redrive has sent it
    RUNNING = "running"
    DONE = "done"
    IN_DOUBT = "in_doubt"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    ON_ITS_WAY = "on_its_way"
    OLDER_FAILURE = "older_failure"
    TOO_OFTEN = "too_often"
    PAYLOAD_MISMATCH = "payload_mismatch"
    ANOTHERS_ID = "anothers_id"
    NO_ROW = "no_row"
    SENT_BEFORE = "sent_before"
    OURS_OPEN = "ours_open"  # of a discard: this group has failed too
    # Facts that come from outside the journal.
    NEEDS_JOURNAL = "needs_journal"
    DOUBLE = "double"
    NO_TOPIC = "no_topic"
    NOT_TAKEN = "not_taken"
    CANNOT_BE_SET = "cannot_be_set"


IN_WORDS = {
    Redrivable.RUNNING: "it runs, or waits for its next run",
    Redrivable.DONE: "it has succeeded, or was skipped",
    Redrivable.IN_DOUBT: "nobody knows whether it happened: resolve it",
    Redrivable.EXPIRED: "it has expired, which is final",
    Redrivable.DISCARDED: "it was discarded, or a new request replaces it: `show` says which",
    Redrivable.ON_ITS_WAY: "it was reopened already, and its deadline is not over",
    Redrivable.OLDER_FAILURE: "it has failed again since, which has a letter of its own",
    Redrivable.TOO_OFTEN: "it was sent back too often (--max-redrives)",
    Redrivable.PAYLOAD_MISMATCH: "its row is of another payload",
    Redrivable.ANOTHERS_ID: "it was refused under an id that it does not keep: send it anew",
    Redrivable.NO_ROW: "the journal knows nothing of it (--unknown sends it all the same)",
    Redrivable.SENT_BEFORE: "it was sent back already, and the journal knows nothing of "
    "it (--again takes it all the same)",
    Redrivable.OURS_OPEN: "this group has failed too, which is open: discard that first",
    Redrivable.NEEDS_JOURNAL: "it is one of ours: its journal knows whether it has run "
    "(without --no-journal)",
    Redrivable.DOUBLE: "another letter of the same failure was taken",
    Redrivable.NO_TOPIC: "the topic that it came from does not exist, or nobody says which",
    Redrivable.NOT_TAKEN: "Kafka does not take its record",
    Redrivable.CANNOT_BE_SET: "its value has no such place, or it or the new one is no JSON",
}


# A discard, and two ways back: its replacement could not be sent, or a person has undone it.
OF_A_CASE = (ActionKind.DISCARD, ActionKind.CANCEL, ActionKind.UNDO)


class DiscardVerdict(StrEnum):
    """Whether a discard can be undone."""

    UNDONE = "undone"
    NOT_DISCARDED = "not_discarded"
    ANOTHER = "another"  # it is discarded, but not by the discard that was seen
    REPLACED = "replaced"  # by a new request with other values, which may run


class RedriveCandidate(NamedTuple):
    """A letter that somebody wants to send back.

    Args:
        generation: of the failure that it tells of, where it says so; 0 for one that never ran.
        redrive_count: how often it was sent back before.
        is_anothers: it was refused under its coordinates, for an id that it does not keep.
        redrive_id: the last redrive that has sent it, as its headers say it; any writer may set it.
        elsewhere_at: of a discard: when it failed in another system; None for this group.
    """

    request_id: str
    generation: int | None
    payload_sha256: str
    redrive_count: int
    is_anothers: bool = False
    redrive_id: str | None = None
    elsewhere_at: int | None = None


class RedriveWish(NamedTuple):
    """How a redrive wants it.

    Args:
        redrive_id: which redrive asks.
        owed: requests that it has reopened, and that Kafka does not have.
        max_redrives: how often a request may be sent back.
        takes_unknown: whether a letter without a row is sent as well.
        sends_again: whether that holds for one that was sent back before, too.
        replaces: whether a new request takes the place of each.
        began_at: the moment before which the others have sent all that `sends_again` is about, by
            the database's clock: a person may know of that. None in a rehearsal: it tells of all.
    """

    redrive_id: str
    owed: Collection[str] = frozenset()
    max_redrives: int = 3
    takes_unknown: bool = False
    replaces: bool = False
    sends_again: bool = False
    began_at: int | None = None


def decide(
    one: RedriveCandidate,
    row: Row | None,
    now: int,
    *,
    actions: Sequence[Action],
    wish: RedriveWish,
) -> Redrivable:
    """Return the verdict on a letter (docs: The guarantee).

    Args:
        actions: earlier actions on the request, oldest first.
    """
    mine = _mine(one, actions, wish)
    if mine is not None:
        if _is_closed_since(one, actions, row, wish):
            return Redrivable.DISCARDED
        since = actions[actions.index(mine) + 1 :]
        kind = _of_mine(one, row, now, mine=mine, since=since, wish=wish)
        if kind is not None:
            return kind
    if one.is_anothers and not wish.replaces:
        return Redrivable.ANOTHERS_ID
    if row is not None and row.payload_sha256 != one.payload_sha256:
        return Redrivable.PAYLOAD_MISMATCH
    if row is not None and row.state != JournalState.FAILED:
        return NOT_FAILED[JournalState(row.state)]
    if row is not None and one.generation not in (None, shown_generation(row)):
        return Redrivable.OLDER_FAILURE
    if is_discarded(actions, row, of=one.generation):
        return Redrivable.DISCARDED
    if one.redrive_count >= wish.max_redrives:
        return Redrivable.TOO_OFTEN
    if row is None and is_sent_before(one, actions) and not _takes_sent(actions, wish):
        return Redrivable.SENT_BEFORE
    if row is None:
        return Redrivable.SEND_UNKNOWN if wish.takes_unknown else Redrivable.NO_ROW
    if row.resend and now < row.deadline_at:
        return Redrivable.ON_ITS_WAY
    return Redrivable.SEND


def shown_generation(row: Row) -> int:
    """Return which of its generations has failed, as its dead letter says it.

    0 for a record that was refused at once: it never ran. One that was refused when it was sent
    again has a number of its own, so that its letter is told from that of the run before.
    """
    return 0 if row.claimed_at is None and row.generation == 1 else row.generation


def is_sent_before(one: RedriveCandidate, actions: Sequence[Action]) -> bool:
    """Whether a letter without a row was sent back already: it never had one, or it was pruned.

    What fails again has a further letter, which names the redrive that has sent it last, and
    another generation. A count in its headers says less: others, too, may have sent it.
    """
    earlier = sendings(actions)
    unknown = [sent for sent in earlier if None in (sent.generation, one.generation)]
    if unknown and (one.redrive_id is None or unknown[-1].redrive_id != one.redrive_id):
        return True
    number = _in_row(one.generation)
    return number is not None and any(sent.generation == number for sent in earlier)


def sent_before_count(one: RedriveCandidate, actions: Sequence[Action]) -> int:
    """Return how often a letter without a row was sent back; 0 where that is no hindrance."""
    if not is_sent_before(one, actions):
        return 0
    return sum(action.action == ActionKind.REDRIVE for action in actions)


def _takes_sent(actions: Sequence[Action], wish: RedriveWish) -> bool:
    """Whether a redrive takes a letter without a row that was sent back before.

    Not one that another has sent since it began: nobody was told of that. In the same millisecond
    nobody knows which was first. Nor one whose row, which it has reopened itself, was pruned since.
    """
    if not wish.sends_again or wish.began_at is None:
        return wish.sends_again
    return all(
        sent.at < wish.began_at or (sent.redrive_id, sent.generation) == (wish.redrive_id, None)
        for sent in sendings(actions)
    )


def sendings(actions: Sequence[Action]) -> list[Action]:
    """Return the redrives of a request that were not taken back, oldest first."""
    left: list[Action] = []
    for action in actions:
        if action.action == ActionKind.REDRIVE:
            left.append(action)
        elif action.action == ActionKind.CANCEL:
            # Another redrive's sending stands.
            of = (action.redrive_id, action.generation)
            left = [sent for sent in left if (sent.redrive_id, sent.generation) != of]
    return left


def is_discarded(actions: Sequence[Action], row: Row | None, *, of: int | None = None) -> bool:
    """Whether a person has closed the case of a failure.

    Args:
        row: None where it was pruned, or never was.
        of: the failure's generation as its letter says it; None where that is not known.
    """
    return standing_discard(actions, row, of=of) is not None


def can_be_undone(
    actions: Sequence[Action], row: Row | None, *, seen: str | None = None
) -> DiscardVerdict:
    """Return whether the discard of a failure can be undone: nothing else has happened to it.

    Args:
        seen: the stamp of the discard that a person means; None: whichever stands.
    """
    is_failed = row is None or row.state == JournalState.FAILED
    return undo_verdict(standing_discard(actions, row) if is_failed else None, seen=seen)


def undo_verdict(discard: Action | None, *, seen: str | None) -> DiscardVerdict:
    """Return whether a discard can be undone; None where nothing is discarded."""
    if discard is None:
        return DiscardVerdict.NOT_DISCARDED
    if seen not in (None, discard.stamp):
        return DiscardVerdict.ANOTHER
    return DiscardVerdict.UNDONE if discard.redrive_id is None else DiscardVerdict.REPLACED


def standing_discard(
    actions: Sequence[Action], row: Row | None, *, of: int | None = None
) -> Action | None:
    """Return the discard by which the case of a failure is closed; see `is_discarded`."""
    standing: list[Action] = []
    for action in actions:
        if action.action not in OF_A_CASE or not _is_about(action, row, of):
            continue
        if action.action == ActionKind.DISCARD:
            standing.append(action)
        elif standing:
            # Without a row one of another system's letter counts too: its undo opens nothing else.
            alike = [one for one in standing if one.generation == action.generation]
            standing.remove((alike or standing)[-1])
    return standing[-1] if standing else None


def _is_about(action: Action, row: Row | None, of: int | None) -> bool:
    """Whether an action is about a failure, also where its row was pruned since."""
    if row is not None:
        return action.generation == row.generation
    return action.generation is None or of is None or action.generation == _in_row(of)


def _in_row(of: int | None) -> int | None:
    # A request that never ran has generation 1 in its row.
    return None if of is None else max(1, of)


def _is_closed_since(
    one: RedriveCandidate, actions: Sequence[Action], row: Row | None, wish: RedriveWish
) -> bool:
    """Whether a person, or the new request of another redrive, has closed the case.

    It can be closed once the deadline of a reopening is over that was never sent.
    """
    discard = standing_discard(actions, row, of=one.generation)
    return discard is not None and discard.redrive_id != wish.redrive_id


def _of_mine(
    one: RedriveCandidate,
    row: Row | None,
    now: int,
    *,
    mine: Action,
    since: Sequence[Action],
    wish: RedriveWish,
) -> Redrivable | None:
    """Return the verdict on a letter that this redrive has taken.

    None where something else has happened to its request since: its client, a resender or another
    redrive was quicker, or the row was pruned. It is judged as any other letter.
    """
    if one.request_id not in wish.owed:
        return Redrivable.SENT
    if row is None and wish.replaces:
        # The row was pruned meanwhile: the request in its place needs none.
        return Redrivable.AGAIN
    if mine.generation != (None if row is None else row.generation):
        return None
    again = (ActionKind.REDRIVE, mine.generation)
    if any((action.action, action.generation) == again for action in since):
        return None
    if row is None or wish.replaces:
        return Redrivable.AGAIN
    if row.state != JournalState.FAILED or not row.resend:
        return None
    return Redrivable.AGAIN if now < row.deadline_at else Redrivable.SEND


def _mine(one: RedriveCandidate, actions: Sequence[Action], wish: RedriveWish) -> Action | None:
    """Return this redrive's last action on the failure of a letter, unless it was taken back."""
    last = None
    for action in actions:
        if action.redrive_id == wish.redrive_id and _is_of(action, one):
            last = action
    return None if last is None or last.action == ActionKind.CANCEL else last


def _is_of(action: Action, one: RedriveCandidate) -> bool:
    if one.generation is None or action.generation is None:
        return True
    return action.generation == _in_row(one.generation)


NOT_FAILED = {
    JournalState.CLAIMED: Redrivable.RUNNING,
    JournalState.RETRYING: Redrivable.RUNNING,
    JournalState.SUCCEEDED: Redrivable.DONE,
    JournalState.SKIPPED: Redrivable.DONE,
    JournalState.IN_DOUBT: Redrivable.IN_DOUBT,
    JournalState.EXPIRED: Redrivable.EXPIRED,
}
