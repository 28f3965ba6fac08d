"""How far back a look for what waits goes: all the way as often as that is cheap."""

from consumer.journal.pacing import EVER_MS, MARGIN_S, LookPacing, pause_after_look_s


def test_every_look_is_at_everything_while_that_is_quick() -> None:
    span = LookPacing(100.0)
    for began_s in (100.0, 105.0, 110.0):
        assert span.begin(began_s) == EVER_MS
        span.looked(began_s, began_s + 0.01, oldest_ms=0)


def test_a_slow_look_at_everything_is_followed_by_looks_at_what_came_since() -> None:
    span = LookPacing(100.0)
    span.begin(100.0)
    span.looked(100.0, 102.0, oldest_ms=0)
    for began_s, since_s in ((105.0, 100.0), (110.0, 105.0)):
        assert span.begin(began_s) == 1000 * (began_s - since_s + MARGIN_S)
        span.looked(began_s, began_s + 0.01, oldest_ms=0)
    assert span.begin(102.0 + pause_after_look_s(2.0)) == EVER_MS


def test_a_look_goes_back_to_the_oldest_that_still_waited() -> None:
    span = LookPacing(100.0)
    span.begin(100.0)
    span.looked(100.0, 102.0, oldest_ms=60_000)
    assert span.begin(105.0) == 1000 * (105.0 - 40.0 + MARGIN_S)
    assert span.age_ms(107.0) == 1000 * (107.0 - 40.0 + MARGIN_S)


def test_a_look_at_everything_that_the_database_gives_up_on_leaves_time_for_the_others() -> None:
    span = LookPacing(100.0)
    span.begin(100.0)
    span.ended(100.0, 110.0)
    assert span.begin(110.0) == 1000 * (10.0 + MARGIN_S)
    assert span.begin(110.0 + pause_after_look_s(10.0)) == EVER_MS
