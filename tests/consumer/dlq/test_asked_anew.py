"""The lines about later requests. Pure."""

from consumer.dlq.list_hints import MOST_LINES, asked_anew_lines
from consumer.journal.redrive.later_requests import NamedLater


def test_nothing_is_said_where_nothing_was_found() -> None:
    assert list(asked_anew_lines(NamedLater({}, is_whole=True))) == []


def test_few_lines_are_shown_nothing_hostile_and_a_look_that_was_cut() -> None:
    found = {f"id-{number}\x1b[2J": ["a", "b"] for number in range(MOST_LINES + 2)}
    first, *lines, more, cut = asked_anew_lines(NamedLater(found, is_whole=False))
    assert "the same key" in first and len(lines) == MOST_LINES
    assert lines[0].endswith(": a, b") and lines[0].isprintable()
    assert more == "  and 2 more: --json has them"
    assert cut.startswith("not all later requests were looked through")


def test_undecided_ones_are_said_apart() -> None:
    later = NamedLater({"a": ["b"]}, True, undecided={"a": ["c"]}, failed={"d": ["e"]})
    succeeded, _, undecided, line, failed, last = asked_anew_lines(later)
    assert "succeeded" in succeeded and "in doubt" in undecided and line == "  a: c"
    assert "failed too" in failed and last == "  d: e"
