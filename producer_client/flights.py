"""Sends many requests, a batch at a time; for both worlds of `way`.

A batch is launched when Redis has it and Kafka is taking it, landed when all its results are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedback.errors import InvalidMessage
from producer_client.submission import Prepared, SendResult, Submission
from producer_client.way import Handed, SendFlow

BATCH = 128
BATCHES_IN_FLIGHT = 4
# A paced sending may catch up by so much when it is late.
CATCH_UP_S = 0.5


@dataclass(slots=True)
class Flight:
    """One batch under way; `places` are the indexes in `results` of the records in `handed`."""

    results: list[SendResult | None]
    places: list[int]
    handed: list[Handed]


async def launch(way: SendFlow, submissions: Sequence[Submission]) -> Flight:
    """Write PENDING for a batch, hand it to Kafka; requests that cannot be sent have results."""
    results: list[SendResult | None] = []
    batch: list[Prepared] = []
    for submission in submissions:
        try:
            batch.append(way.prepare(submission))
            results.append(None)
        except InvalidMessage as error:
            results.append(SendResult(submission.request_id or "", error))
    announced = await way.announce_each(batch) if batch else []
    places = [at for at, result in enumerate(results) if result is None]
    to_send: list[Prepared] = []
    send_places: list[int] = []
    for at, one, told in zip(places, batch, announced, strict=True):
        if isinstance(told, Prepared):
            to_send.append(told)
            send_places.append(at)
        else:
            results[at] = SendResult(one.request_id, told)
    return Flight(results, send_places, way.hand_over(to_send))


async def land(way: SendFlow, flight: Flight) -> list[SendResult]:
    """Return the results of a batch, in its order."""
    for at, (one, record) in zip(flight.places, flight.handed, strict=True):
        flight.results[at] = SendResult(one.request_id, await way.outcome(one, record))
    landed = [result for result in flight.results if result is not None]
    assert len(landed) == len(flight.results)
    return landed


def batch_size(rate: float | None) -> int:
    """Return how many are sent together: with a rate, a fiftieth of a second's requests."""
    return BATCH if rate is None else max(1, min(BATCH, int(rate / 50)))
