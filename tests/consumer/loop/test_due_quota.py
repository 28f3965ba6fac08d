"""The share of retries in a busy worker."""

from consumer.loop.due_quota import EVERY_S, FRESH_FOR_EACH, MOST_SAVED, DueQuota


def test_one_retry_goes_for_so_many_others() -> None:
    share = DueQuota()
    share.spend(share.room(10, 0.0))
    share.earn(3 * FRESH_FOR_EACH - 1)
    assert share.room(10, 1.0) == 2
    share.spend(2)
    share.earn(1)
    assert share.room(10, 2.0) == 1


def test_they_go_some_at_a_time() -> None:
    share = DueQuota()
    share.earn(5 * FRESH_FOR_EACH)
    assert share.room(10, 1.0) > 0
    assert share.room(10, 1.0 + EVERY_S / 2) == 0
    assert share.room(10, 1.0 + EVERY_S) > 0


def test_what_was_not_used_is_not_spent_all_at_once() -> None:
    share = DueQuota()
    share.earn(1_000 * FRESH_FOR_EACH)
    assert share.room(1_000, 1.0) == MOST_SAVED


def test_no_more_is_given_than_there_is_room_for() -> None:
    share = DueQuota()
    share.earn(5 * FRESH_FOR_EACH)
    assert share.room(2, 1.0) == 2
