"""Handlers whose query functions show one behaviour each."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from consumer import Happened, Request, Unknown, Voided, handler

ANSWERS: dict[str, Any] = {
    "happened": Happened({"charge": 7}),
    "happened-nothing": Happened(),
    "happened-word": "happened",
    "happened-pair": ("happened", [1, 2]),
    "happened-large": Happened("x" * 2**20),
    "happened-set": Happened({1}),
    "voided": Voided(),
    "voided-word": "voided",
    "unknown": Unknown("the bank\ndoes not answer"),
    "unknown-word": "unknown",
    "none": None,
    "class": Voided,
    "other-word": "maybe",
    "list": ["happened", 1],
    "odd-message": Unknown(5),  # type: ignore[arg-type]
}


def by_value(request: Request) -> Any:
    return ANSWERS[request.json()]


async def by_value_on_loop(request: Request) -> Any:
    await asyncio.sleep(0)
    return ANSWERS[request.json()]


def what_it_got(request: Request) -> Any:
    seen = [request.request_id, request.generation, request.voids, request.idempotency_key]
    return Happened([*seen, request.headers[0][0], threading.current_thread().name])


def enter_effect(request: Request) -> Any:
    with request.effect():
        return Happened()


def use_connection(request: Request) -> Any:
    return Happened(str(request.connection))


def leave(request: Request) -> Any:
    raise SystemExit(request.json())


async def cancel_itself(request: Request) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def hold(request: Request) -> Any:
    return Happened(Path(request.json()).read_text())


def returns_coroutine(request: Request) -> Any:
    return by_value_on_loop(request)


class OnLoop:
    """A query that is no function."""

    async def __call__(self, request: Request) -> Any:
        return Happened(threading.current_thread().name)


def _run(request: Request) -> str:
    return json.dumps("ran")


async def _run_on_loop(request: Request) -> str:
    return json.dumps("ran")


_queries: dict[str, Callable[..., Any]] = {
    "plain": by_value,
    "on-loop": by_value_on_loop,
    "got": what_it_got,
    "effect": enter_effect,
    "connection": use_connection,
    "exit": leave,
    "cancel": cancel_itself,
    "hold": hold,
    "coroutine-returned": returns_coroutine,
    "object-on-loop": OnLoop(),
}
for _topic, _query in _queries.items():
    handler(topic=_topic, effect="marked", in_doubt="query", query=_query)(_run)
handler(topic="handler-on-loop", in_doubt="query", query=what_it_got)(_run_on_loop)
handler(topic="without")(_run)
