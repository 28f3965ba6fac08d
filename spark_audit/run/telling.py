"""The verdict of each day, told to Prometheus and the webhook as soon as its report stands.

A run may judge several days, and may fail after any of them. So each is told before the next is
judged, and the metrics are of all days that the run has told.

A mark lies in the output folder from before a report appears until its verdict was told: where a
run dies between, the next run tells it. A webhook may so get a verdict twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import NotAvailable
from feedback.logs import EventLog
from spark_audit.output.location import Location
from spark_audit.output.outputs import is_whole, put_text, remove
from spark_audit.output.paths import DayPaths
from spark_audit.say.prometheus_file import write_metrics
from spark_audit.say.summary import Summary, post_verdict
from spark_audit.stage.days import is_judged

_UNTOLD = "untold-"
_LOG = EventLog("onceward.audit")


class VerdictTelling:
    """The telling of one run; the caller holds the lock of the output folder.

    Where a later day was judged as a whole before, the metrics stay that day's: an old day that is
    judged again is no news of last night.

    Args:
        date: YYYY-MM-DD, the day that the run is for.
        webhook_url: a secret; empty where nobody is told so.
        began_s: when the run began, by the monotonic clock.
    """

    def __init__(self, output: Location, date: str, *, webhook_url: str, began_s: float) -> None:
        self._output = output
        self._date = date
        self._webhook_url = webhook_url
        self._began_s = began_s
        self._newest = next(_whole_days(output), "")
        self._measured: dict[str, Summary] = {}
        self._fault: NotAvailable | None = None

    def expect(self, date: str) -> None:
        """Note that a day's report is about to appear.

        Raises:
            NotAvailable: the folder cannot be written.
        """
        try:
            put_text(self._mark(date), "")
        except OSError as error:
            raise NotAvailable(f"{self._output} cannot be written: {error.strerror}") from error

    def tell(self, summary: Summary) -> None:
        """Tell the verdict of a day whose report stands. Where its metrics cannot be written the
        next run tells it again, and `finish` fails."""
        self._tell(summary, is_news=self._date >= self._newest)

    def tell_untold(self) -> None:
        """Tell the days whose run died between report and telling. One that is judged after this,
        as the run's own day is, is told then."""
        marks = self._output.glob(f"{_UNTOLD}*")
        for date in sorted(one.name.removeprefix(_UNTOLD) for one in marks):
            if date != self._date and is_judged(self._output, date):
                _LOG.warning("audit.told_late", date=date)
                text = DayPaths(self._output, date).summary.read_text(encoding="utf-8")
                self._tell(json.loads(text), is_news=date >= self._newest)

    def finish(self) -> None:
        """Return when all that was to be told was written.

        Raises:
            NotAvailable: the metrics cannot be written.
        """
        if self._fault is not None:
            raise self._fault

    def _tell(self, summary: Summary, *, is_news: bool) -> None:
        date = summary["date"]
        if is_news:
            self._measured[date] = summary
            self._fault = self._written()
        if self._webhook_url:
            post_verdict(self._webhook_url, summary)
        if is_news and self._fault is not None:
            return
        for one in {date, *self._measured} if is_news else {date}:
            remove(self._mark(one))

    def _written(self) -> NotAvailable | None:
        """Write the metrics of all days that the run has told; return the fault."""
        days = self._measured
        try:
            write_metrics(
                DayPaths(self._output, self._date).metrics,
                [days[date] for date in sorted(days)],
                seconds=monotonic_s() - self._began_s,
                # Until its own day is judged the run has not seen everything.
                succeeded_at_s=epoch_ms() / 1000 if self._date in days else None,
            )
        except NotAvailable as error:
            return error
        return None

    def _mark(self, date: str) -> Location:
        return self._output / f"{_UNTOLD}{date}"


def _whole_days(output: Location) -> Iterator[str]:
    """Yield the days that were judged when they were over, the latest first."""
    folders = (output / "reports").glob("date=*")
    for date in sorted((one.name.removeprefix("date=") for one in folders), reverse=True):
        places = DayPaths(output, date)
        if not is_whole(places.report):
            continue
        try:
            found = json.loads(places.summary.read_text(encoding="utf-8"))
            is_over = found["frozen_at_ms"] >= found["until_ms"]
        except (OSError, ValueError, KeyError, TypeError):
            # Nobody can say of which time it is: it keeps no other day from being told.
            continue
        if is_over:
            yield date
