"""How far a redrive is: what is saved while one page is sent and the next is reopened."""

from __future__ import annotations

from consumer.dlq.redrive.progress import NamedResults, PageUnderWay, RedriveProgress
from consumer.journal.records import Published
from consumer.journal.redrive.redrive_row import Redrive


def stands(**changes: object) -> Redrive:
    given: dict[str, object] = dict.fromkeys(Redrive._fields)
    given |= {"positions": {("d", 0): 1}, "unconfirmed": [], "marks": {}, "counts": {"sent": 3}}
    return Redrive(**(given | changes))  # type: ignore[arg-type]


def begun(**changes: object) -> RedriveProgress:
    return RedriveProgress(stands(**changes), (), NamedResults(()))


def begin(progress: RedriveProgress, position: int, *names: str, mark: int = 9) -> PageUnderWay:
    page = progress.begin({("d", 0): position}, read=position, total=9)
    page.reopening(names, {("t", 0): mark})
    return page


def test_a_page_is_saved_once_all_of_it_is_sent_and_those_before_it() -> None:
    progress = begun()
    first, second = begin(progress, 2, "a"), begin(progress, 3, "b")
    first.became("a", "sent")
    second.became("b", "done")
    assert progress.finish() is None
    second.is_handed_over = True
    assert progress.finish() is None
    assert progress.so_far()[:4] == ({("d", 0): 1}, {("t", 0): 9}, {"a", "b"}, {"sent": 3})
    assert progress.counts == {"sent": 4, "done": 1}
    assert progress.so_far().under_way == {"sent": 1, "done": 1}
    first.is_handed_over = True
    assert progress.finish() is second
    assert progress.so_far()[:4] == ({("d", 0): 3}, {}, set(), {"sent": 4, "done": 1})
    assert progress.so_far().under_way == {}


def test_of_the_pages_on_their_way_the_oldest_marks_count() -> None:
    progress = begun()
    first, second = begin(progress, 2, "a", mark=5), begin(progress, 3, "b", mark=7)
    first.reopening(["c"], {("t", 0): 6, ("t", 1): 6, ("u", 0): 2})
    assert progress.so_far().marks == {("t", 0): 5, ("u", 0): 2}
    first.is_handed_over = True
    progress.finish()
    assert (progress.so_far().marks, progress.so_far().unconfirmed) == ({("t", 0): 7}, {"b"})
    second.is_handed_over = True
    progress.finish()
    assert (progress.so_far().marks, progress.so_far().unconfirmed) == ({}, set())


def test_what_an_earlier_process_left_keeps_its_marks_until_it_is_come_upon() -> None:
    left = stands(unconfirmed=["a", "b"], marks={("t", 0): 5})
    progress = RedriveProgress(left, {"a", "z"}, NamedResults(()))
    assert (progress.sent, progress.owed) == ({"a"}, {"b"})
    for position, name in ((2, "a"), (3, "b")):
        assert progress.so_far().marks == {("t", 0): 5}
        begin(progress, position, name).is_handed_over = True
        assert progress.so_far().marks == {("t", 0): 5}
        progress.finish()
    assert progress.so_far()[1:3] == ({}, set())


def test_what_redis_was_told_is_saved_once_and_not_before_its_page() -> None:
    progress = begun()
    page, told = begin(progress, 2, "a"), Published("a", 1, "FAILED")
    page.published.append(told)
    assert progress.so_far().published == ()
    page.is_handed_over = True
    progress.finish()
    so_far = progress.so_far()
    assert so_far.published == (told,)
    progress.saved(so_far)
    assert progress.so_far().published == ()


def test_of_several_letters_of_a_named_request_the_sent_one_is_its_answer() -> None:
    answers = NamedResults(["a", "b", "c"], {"c": "done"})
    page = RedriveProgress(stands(), (), answers).begin({}, read=0, total=0)
    for what in ("older_failure", "sent", "older_failure"):
        page.became("a", what)
    page.became("x", "sent")
    assert answers.of_named == {"a": "sent", "b": "no_letter", "c": "done"}
    assert answers.found == {"a": "sent", "c": "done"}
    assert page.counts == {"older_failure": 2, "sent": 2}
