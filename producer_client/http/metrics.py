"""The counters of a front door, for Prometheus."""

from __future__ import annotations

from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DoorMetrics:
    """Counts answers and open streams.

    Args:
        registry: an application's own; None: one for this process alone.

    Attributes:
        registry: the metrics that a scrape reads.
        streams: the open event streams.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        # Otherwise each counter has a second series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry or CollectorRegistry()
        if registry is None:
            ProcessCollector(registry=self.registry)
        self._answers = Counter(
            "onceward_http_answers",
            "Answers of the front door.",
            ["page", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "onceward_http_seconds",
            "The time to an answer, a wait that was asked for included.",
            ["page"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.streams = Gauge("onceward_http_streams", "Open event streams.", registry=self.registry)

    def answered(self, page: str, status: int, seconds: float) -> None:
        """Count one answer.

        Args:
            page: its name in `PAGES`.
        """
        of_both, of_page = self._counted(page, status)
        of_both.inc()
        of_page.observe(seconds)

    # Finding a series by its labels takes longer than counting in it.
    @cache  # noqa: B019 - there is one of this class in a process
    def _counted(self, page: str, status: int) -> tuple[Counter, Histogram]:
        return self._answers.labels(page, str(status)), self._seconds.labels(page)
