"""Records as programs write them that know nothing of Onceward but its headers."""

from typing import NamedTuple

Headers = list[tuple[str, bytes]]


class Sent(NamedTuple):
    """Where Kafka put a record of a foreign producer."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def coordinates_id(self) -> str:
        """The request id of a record that names none."""
        return f"{self.topic}-{self.partition}-{self.offset}-{self.timestamp}"


def identity(request_id: str, attempt: int = 1, deadline_at: int | None = None) -> Headers:
    """Return the headers of docs: Kafka records, as another language's client writes them."""
    written = [
        ("onceward-request-id", request_id.encode()),
        ("onceward-attempt", str(attempt).encode()),
    ]
    if deadline_at is not None:
        written.append(("onceward-deadline", str(deadline_at).encode()))
    return written
