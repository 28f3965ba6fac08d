"""What the road reports. This one listens to nothing: with `http_port` 0 nobody asks."""

from __future__ import annotations

from consumer.loop.feature import Feature


class Metrics(Feature):
    """Hears how long things took and how requests ended; any thread may call.

    Every method returns at once. `consumer.ops.health.exposed` has the one that counts.
    """

    def commit_took(self, seconds: float) -> None:
        """Hear of one commit of offsets, whatever came of it."""

    def claim_took(self, seconds: float) -> None:
        """Hear of one transaction of the journal that carried claims."""

    def finish_took(self, seconds: float) -> None:
        """Hear of one transaction of the journal that carried finishes."""

    def status_took(self, seconds: float) -> None:
        """Hear of one batch of statuses written to Redis."""

    def delivered(self, topic: str, count: int = 1) -> None:
        """Hear of records that were read and committed."""

    def dead_letters(self, topic: str, what: str, count: int) -> None:
        """Hear of failures that no longer wait for their dead letters.

        Args:
            what: `written`, `dropped` (by the settings), or `payload_gone`.
        """

    def dead_letters_waiting(self, topic: str, count: int, since_s: float) -> None:
        """Hear how many failures of the group wait for their dead letters now.

        Args:
            since_s: the monotonic time of the oldest.
        """

    def alerts(self, what: str, count: int) -> None:
        """Hear what became of alerts.

        Args:
            what: `sent`, `failed` (a try), or `dropped`.
        """

    def outcomes_written(self, topic: str, count: int) -> None:
        """Hear of requests whose outcome topic has their record."""

    def outcomes_waiting(self, topic: str, count: int, since_s: float) -> None:
        """Hear how many ended requests of the group wait for the record of their outcome now.

        Args:
            since_s: the monotonic time of the oldest.
        """


NO_METRICS = Metrics()
