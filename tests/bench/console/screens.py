"""The console's screens, read one after the other as a person would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

import httpx

from consumer.dlq.dates import iso
from feedback.clock import epoch_ms, monotonic_s
from tests.bench.console.planting import DOUBT_EACH, LETTER_EACH_MS, Planted
from tests.bench.errors import BenchError
from tests.eventually import eventually

# A page may have to wait for the first reading of all letters.
PAGE_LIMIT_S = 60.0
READ_WITHIN_S = 300.0
BEING_READ = "being read"
BARS = 'class="bars'
MINUTE_MS = 60_000


def screens(planted: Planted) -> Mapping[str, str]:
    """Return the paths of all screens, by the names that rows have."""
    last_doubt = planted.rows - planted.rows % DOUBT_EACH
    quarter_ms, now_ms = planted.letters * LETTER_EACH_MS // 4, epoch_ms()
    brushed = f"since={iso(now_ms - 3 * quarter_ms)}&until={iso(now_ms - quarter_ms)}"
    return {
        "now": "/",
        "workers": "/workers",
        "requests": "/requests",
        "requests by id": f"/requests?id={planted.request_id(planted.rows // 2)[:12]}",
        "requests by many ids": "/requests?id=0000000",
        "requests by topic": f"/requests?topic={planted.topic}",
        "requests by key": "/requests?key=card-7",
        "requests by state": "/requests?state=IN_DOUBT",
        "requests by a code that none has": "/requests?code=nothing",
        "requests by time": "/requests?since=1m",
        "one request": f"/request?id={planted.request_id(last_doubt)}",
        "one request with a letter": f"/request?id={planted.failed(planted.letters // 2)}",
        "doubts": "/doubts",
        "letters": "/letters",
        "letters by reason": "/letters?reason=BANK",
        "letters by topic": f"/letters?topic={planted.topic}",
        "letters of a brushed stretch": f"/letters?{brushed}",
        "letters of a brushed stretch by reason": f"/letters?{brushed}&reason=BANK",
        # Another stretch with each look: none is kept from the look before.
        "letters since so long ago": f"/letters?since={3 * quarter_ms // MINUTE_MS}m",
        "topics": "/topics",
        "actions": "/actions",
        "audit": "/audit",
    }


def await_letters(console: httpx.Client) -> float:
    """Return after how many seconds the console has read all letters."""
    began_s = monotonic_s()
    eventually(
        lambda: BEING_READ not in read(console, "/letters"),
        timeout_s=READ_WITHIN_S,
        what="a console that has read all letters",
    )
    return monotonic_s() - began_s


def read(console: httpx.Client, path: str) -> str:
    """Return a page.

    Raises:
        BenchError: the console could not show it.
    """
    answer = console.get(path, timeout=PAGE_LIMIT_S)
    if answer.status_code != HTTPStatus.OK:
        raise BenchError(f"{path}: {answer.status_code}\n{answer.text[-2000:]}")
    return answer.text


def times_ms(console: httpx.Client, path: str, *, times: int) -> list[float]:
    """Return how long a page took, so many times after the first.

    Raises:
        BenchError: the console could not show it, or it counts no letters.
    """
    page = read(console, path)
    if path.startswith("/letters") and BARS not in page:
        raise BenchError(f"{path}: the page has no bars\n{page[-2000:]}")

    def took_ms(call: Callable[[], object]) -> float:
        began_s = monotonic_s()
        call()
        return 1000 * (monotonic_s() - began_s)

    return [took_ms(lambda: read(console, path)) for _ in range(times)]
