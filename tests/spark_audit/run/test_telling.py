"""Each day's verdict reaches Prometheus and the webhook, wherever its run ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from spark_audit.findings import Finding
from spark_audit.output.paths import DayPaths
from spark_audit.run.telling import VerdictTelling
from spark_audit.say.summary import Summary
from spark_audit.stage.snapshot import Snapshot
from tests.kit.webhook import Hook, open_hook
from tests.spark_audit.say.samples import summary
from tests.spark_audit.stage.samples import DATE

YESTERDAY, TOMORROW = "2026-09-30", "2100-01-01"
BAD = {Finding.LOST: 1}
assert YESTERDAY < DATE < TOMORROW


@pytest.fixture
def chat() -> Iterator[Hook]:
    """A chat that takes messages."""
    with open_hook() as opened:
        yield opened


def _telling(output: Path, chat: Hook, *, date: str = DATE) -> VerdictTelling:
    return VerdictTelling(output, date, webhook_url=chat.url, began_s=monotonic_s())


def _judged(output: Path, date: str, *, frozen_at_ms: int = 0, **found: int) -> Summary:
    """Plant a day with a finding, and its report; it was read again where another time is given."""
    told = summary({Finding(name): count for name, count in found.items()}) | {"date": date}
    read = {"frozen_at_ms": frozen_at_ms or told["frozen_at_ms"]}
    for path, content in (
        (DayPaths(output, date).summary, told),
        (Snapshot.of(output, date).manifest, read),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    return told


def _dates(chat: Hook) -> list[str]:
    texts = [json.loads(body)["text"] for _, body in chat.received]
    dates = (YESTERDAY, DATE, TOMORROW)
    return [next(one for one in dates if one in text) for text in texts]


def _is_bad(output: Path) -> bool:
    metrics = DayPaths(output, DATE).metrics
    return metrics.exists() and 'verdict="bad"} 1.0' in metrics.read_text()


def test_a_day_that_another_run_judges_is_told_though_its_own_day_is_good(
    tmp_path: Path, chat: Hook
) -> None:
    telling = _telling(tmp_path, chat)
    telling.tell(_judged(tmp_path, YESTERDAY, lost=1))
    assert _is_bad(tmp_path)
    telling.tell(_judged(tmp_path, DATE))
    assert _is_bad(tmp_path)
    assert _dates(chat) == [YESTERDAY, DATE]


def test_a_day_whose_run_died_after_its_report_is_told_by_the_next_one_once(
    tmp_path: Path, chat: Hook
) -> None:
    _telling(tmp_path, chat, date=YESTERDAY).expect(YESTERDAY)
    _judged(tmp_path, YESTERDAY, lost=1)
    for _ in range(2):
        _telling(tmp_path, chat).tell_untold()
    assert _is_bad(tmp_path)
    assert _dates(chat) == [YESTERDAY]


def test_a_day_whose_run_died_before_its_report_is_left_to_the_run_that_judges_it(
    tmp_path: Path, chat: Hook
) -> None:
    _telling(tmp_path, chat).expect(YESTERDAY)
    _judged(tmp_path, YESTERDAY, frozen_at_ms=2, lost=1)
    telling = _telling(tmp_path, chat)
    telling.tell_untold()
    assert not chat.received
    assert not DayPaths(tmp_path, DATE).metrics.exists()


def test_an_old_day_that_is_judged_again_hides_nothing_of_last_night(
    tmp_path: Path, chat: Hook
) -> None:
    _telling(tmp_path, chat).tell(_judged(tmp_path, DATE, lost=1))
    _telling(tmp_path, chat, date=YESTERDAY).tell(_judged(tmp_path, YESTERDAY))
    assert _is_bad(tmp_path)
    assert _dates(chat) == [DATE, YESTERDAY]


def test_the_newest_day_whose_run_died_is_told_by_a_run_for_an_older_one(
    tmp_path: Path, chat: Hook
) -> None:
    _telling(tmp_path, chat).expect(DATE)
    _judged(tmp_path, DATE, lost=1)
    older = _telling(tmp_path, chat, date=YESTERDAY)
    older.tell_untold()
    older.tell(_judged(tmp_path, YESTERDAY))
    assert _is_bad(tmp_path)
    assert _dates(chat) == [DATE, YESTERDAY]


def test_a_day_that_was_not_over_keeps_no_earlier_one_from_being_told(
    tmp_path: Path, chat: Hook
) -> None:
    noon = {"frozen_at_ms": summary()["until_ms"] - 1}
    part = summary() | {"date": DATE} | noon
    path = DayPaths(tmp_path, DATE).summary
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(part))
    _telling(tmp_path, chat, date=YESTERDAY).tell(_judged(tmp_path, YESTERDAY, lost=1))
    assert _is_bad(tmp_path)


def test_a_day_whose_run_died_is_not_counted_twice_by_the_run_that_judges_it_again(
    tmp_path: Path, chat: Hook
) -> None:
    _telling(tmp_path, chat).expect(DATE)
    _judged(tmp_path, DATE, lost=1)
    telling = _telling(tmp_path, chat)
    telling.tell_untold()
    telling.tell(summary() | {"date": DATE})
    assert not _is_bad(tmp_path)
    assert _dates(chat) == [DATE]


def test_an_old_day_whose_run_died_is_no_news_of_last_night(tmp_path: Path, chat: Hook) -> None:
    _telling(tmp_path, chat).tell(_judged(tmp_path, DATE))
    _telling(tmp_path, chat, date=YESTERDAY).expect(YESTERDAY)
    _judged(tmp_path, YESTERDAY, lost=1)
    tonight = _telling(tmp_path, chat, date=TOMORROW)
    tonight.tell_untold()
    tonight.tell(summary() | {"date": TOMORROW})
    assert not _is_bad(tmp_path)
    assert _dates(chat)[:2] == [DATE, YESTERDAY]
    assert not list(tmp_path.glob("untold-*"))


def test_a_fault_of_the_metrics_that_has_passed_ends_no_run(tmp_path: Path, chat: Hook) -> None:
    DayPaths(tmp_path, DATE).metrics.mkdir(parents=True)
    telling = _telling(tmp_path, chat)
    telling.expect(YESTERDAY)
    telling.tell(_judged(tmp_path, YESTERDAY, lost=1))
    DayPaths(tmp_path, DATE).metrics.rmdir()
    telling.tell(_judged(tmp_path, DATE))
    telling.finish()
    assert _is_bad(tmp_path)
    assert not list(tmp_path.glob("untold-*"))


def test_metrics_that_cannot_be_written_keep_no_day_from_being_judged(
    tmp_path: Path, chat: Hook
) -> None:
    DayPaths(tmp_path, DATE).metrics.mkdir(parents=True)
    _telling(tmp_path, chat).expect(YESTERDAY)
    _judged(tmp_path, YESTERDAY, lost=1)
    telling = _telling(tmp_path, chat)
    telling.tell_untold()
    telling.expect(DATE)
    telling.tell(_judged(tmp_path, DATE, lost=1))
    with pytest.raises(NotAvailable, match="cannot be written"):
        telling.finish()
    assert _dates(chat) == [YESTERDAY, DATE]
    DayPaths(tmp_path, DATE).metrics.rmdir()
    again = _telling(tmp_path, chat, date=TOMORROW)
    again.tell_untold()
    again.finish()
    assert _is_bad(tmp_path)


def test_last_nights_day_that_is_judged_again_is_told_anew(tmp_path: Path, chat: Hook) -> None:
    told = _judged(tmp_path, DATE, lost=1)
    _telling(tmp_path, chat).tell(told)
    _telling(tmp_path, chat).tell(summary() | {"date": DATE})
    assert not _is_bad(tmp_path)
