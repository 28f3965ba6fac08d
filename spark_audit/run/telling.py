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
from spark_audit.output.outputs import put_text, remove
from spark_audit.output.paths import Places
from spark_audit.say.prometheus_file import write_metrics
from spark_audit.say.summary import Summary, post_verdict
from spark_audit.stage.days import is_judged

_UNTOLD = "untold-"
_LOG = EventLog("onceward.audit")


class VerdictTelling:
    """The telling of one run; the caller holds the lock of the output folder.

    Args:
        date: YYYY-MM-DD, the day that the run is for. Where a later day was judged before, the
            metrics stay that day's: an old day that is judged again is no news of last night.
        webhook_url: a secret; empty where nobody is told so.
        began_s: when the run began, by the monotonic clock.
    """

    def __init__(self, output: Location, date: str, *, webhook_url: str, began_s: float) -> None:
        self._output = output
        self._webhook_url = webhook_url
        self._began_s = began_s
        self._has_metrics = all(one <= date for one in _judged_dates(output))
        self._told: list[Summary] = []

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
        """Tell the verdict of a day whose report stands.

        Raises:
            NotAvailable: the metrics cannot be written; the next run tells this day again.
        """
        self._told.append(summary)
        if self._has_metrics:
            write_metrics(
                Places(self._output, summary["date"]).metrics,
                self._told,
                seconds=monotonic_s() - self._began_s,
                ended_at_s=epoch_ms() / 1000,
            )
        if self._webhook_url:
            post_verdict(self._webhook_url, summary)
        remove(self._mark(summary["date"]))

    def tell_untold(self) -> None:
        """Tell the days whose run died between report and telling. One that it had not judged yet
        is told by the run that judges it."""
        marks = self._output.glob(f"{_UNTOLD}*")
        for date in sorted(one.name.removeprefix(_UNTOLD) for one in marks):
            if is_judged(self._output, date):
                _LOG.warning("audit.told_late", date=date)
                text = Places(self._output, date).summary.read_text(encoding="utf-8")
                self.tell(json.loads(text))

    def _mark(self, date: str) -> Location:
        return self._output / f"{_UNTOLD}{date}"


def _judged_dates(output: Location) -> Iterator[str]:
    for one in (output / "reports").glob("date=*"):
        yield one.name.removeprefix("date=")
