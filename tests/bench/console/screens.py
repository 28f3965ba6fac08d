"""The console's screens, read one after the other as a person would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

import httpx

from feedback.clock import monotonic_s
from tests.bench.console.planting import DOUBT_EACH, Planted
from tests.bench.errors import BenchError
from tests.eventually import eventually

# A page may have to wait for the first reading of all letters.
PAGE_LIMIT_S = 60.0
READ_WITHIN_S = 300.0
BEING_READ = "being read"


def screens(planted: Planted) -> Mapping[str, str]:
    """Return the paths of all screens, by the names that rows have."""
    last_doubt = planted.rows - planted.rows % DOUBT_EACH
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
        "one request": f"/requests/{planted.request_id(last_doubt)}",
        "one request with a letter": f"/requests/{planted.failed(planted.letters // 2)}",
        "doubts": "/doubts",
        "letters": "/letters",
        "letters by reason": "/letters?reason=BANK",
        "letters by topic": f"/letters?topic={planted.topic}",
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
    """Return how long a page took, so many times after the first."""
    read(console, path)

    def took_ms(call: Callable[[], object]) -> float:
        began_s = monotonic_s()
        call()
        return 1000 * (monotonic_s() - began_s)

    return [took_ms(lambda: read(console, path)) for _ in range(times)]
