"""Handlers that the children of these tests run; each topic shows one behaviour."""

import asyncio
import ctypes
import gc
import json
import logging
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from consumer.handlers.decorator import handler
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from consumer.handlers.request import Request

_running = 0
_most = 0
_counting = threading.Lock()
_barriers: dict[int, threading.Barrier] = {}
_arrived = asyncio.Event()
_kept: list[bytes] = []


@handler(topic="echo")
def echo(request: Request) -> Any:
    return {
        "value": request.value.decode() if request.value is not None else None,
        "key": request.key.decode() if request.key is not None else None,
        "headers": [[name, value and value.decode()] for name, value in request.headers],
        "place": [request.topic, request.partition, request.offset, request.timestamp],
        "run": [request.request_id, request.generation, request.attempt, request.deadline_at],
        "idempotency_key": request.idempotency_key,
        "pid": os.getpid(),
    }


@handler(topic="coroutine")
async def coroutine(request: Request) -> Any:
    await asyncio.sleep(0)
    return request.json()


@handler(topic="meet-in-threads")
def meet_in_threads(request: Request) -> int:
    """Return only when as many runs as the value says are here at the same time."""
    parties = request.json()
    with _counting:
        barrier = _barriers.setdefault(parties, threading.Barrier(parties))
    barrier.wait(60)
    return os.getpid()


@handler(topic="meet-on-loop")
async def meet_on_loop(request: Request) -> int:
    global _running
    _running += 1
    if _running == request.json():
        _arrived.set()
    await asyncio.wait_for(_arrived.wait(), 60)
    return os.getpid()


@handler(topic="most-at-once")
def most_at_once(request: Request) -> int:
    """Return how many runs have been here at the same time so far."""
    global _running, _most
    with _counting:
        _running += 1
        _most = max(_most, _running)
    subprocess.run(["true"], check=True)  # lets the other threads run
    with _counting:
        _running -= 1
        return _most


@handler(topic="hold")
def hold(request: Request) -> str:
    """Wait until the test opens the FIFO that the value names."""
    return Path(request.json()).read_text()


@handler(topic="hang-coroutine")
async def hang_coroutine(request: Request) -> None:
    await asyncio.Event().wait()


@handler(topic="hold-the-loop")
async def hold_the_loop(request: Request) -> str:
    """Wait like `hold`, so that no other coroutine of this child gets on."""
    return Path(request.json()).read_text()


@handler(topic="record")
def record(request: Request) -> None:
    """Append the id to a file; after this line the effect has happened."""
    with Path(request.json()).open("a") as file:
        file.write(request.request_id + "\n")


@handler(topic="segfault")
def segfault(request: Request) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would only take time
    ctypes.string_at(0)


@handler(topic="leave-wedged")
def leave_wedged(request: Request) -> None:
    """Return in time, and leave a thread that soon holds the interpreter's lock for ever."""
    threading.Timer(0.2, ctypes.PyDLL(None).sleep, (3600,)).start()


@handler(topic="grow")
def grow(request: Request) -> None:
    """Keep so many MiB of memory for ever, then wait for the FIFO if there is one."""
    body = request.json()
    _kept.append(b"x" * (body["mib"] * 2**20))
    if body.get("fifo"):
        Path(body["fifo"]).read_text()


@handler(topic="exit-now")
def exit_now(request: Request) -> None:
    os._exit(request.json())


@handler(topic="fork-and-hold")
def fork_and_hold(request: Request) -> None:
    """Leave a fork behind, which inherits every open file, and wait in it."""
    if os.fork() == 0:
        Path(request.json()).read_text()
        os._exit(0)
    os._exit(7)


@handler(topic="sys-exit")
def sys_exit(request: Request) -> None:
    sys.exit(1)


@handler(topic="sys-exit-coroutine")
async def sys_exit_coroutine(request: Request) -> None:
    sys.exit(1)


async def _leave() -> None:
    sys.exit(1)


@handler(topic="sys-exit-task")
async def sys_exit_task(request: Request) -> None:
    await asyncio.create_task(_leave())


@handler(topic="cancel-itself")
async def cancel_itself(request: Request) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@handler(topic="print")
def print_much(request: Request) -> str:
    for _ in range(request.json()):
        print("x" * 1023)
    print("y" * 1024, file=sys.stderr)
    return "printed"


@handler(topic="log")
def log_a_line(request: Request) -> None:
    logging.getLogger("shop").warning("charged", extra={"amount": request.json()})


@handler(topic="log-coroutine")
async def log_from_a_coroutine(request: Request) -> None:
    await asyncio.sleep(0)
    log_a_line(request)


@handler(topic="return")
def return_odd(request: Request) -> Any:
    kind = request.json()
    return {"set": set(), "nan": float("nan"), "large": "x" * 10 * 2**20, "text": "é"}[kind]


@handler(topic="raise", effect="marked", retry_on=(BlockingIOError,))
def raise_what(request: Request) -> None:
    errors: dict[str, BaseException] = {
        "rejected": Rejected("CARD_EXPIRED", "the card has expired"),
        "in-doubt": InDoubt("the bank did not answer"),
        "retry": BlockingIOError("nothing happened"),
        "other": ValueError("line one\nline\0two " + "z" * 600),
        "memory": MemoryError(),
    }
    raise errors[request.json()]


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise OSError("no")


class Nameless(Exception, metaclass=_Nameless):
    """An error that cannot be named, and so not be logged either."""


class Mute:
    """A message that says nothing."""

    def __str__(self) -> str:
        raise OSError("no")


@handler(topic="raise-hostile")
def raise_hostile(request: Request) -> None:
    rejected = Rejected("NO")
    rejected.code = Mute()  # type: ignore[assignment]
    errors: dict[str, BaseException] = {
        "name": Nameless(),
        "message": Rejected("NO", Mute()),  # type: ignore[arg-type]
        "code": rejected,
    }
    raise errors[request.json()]


@handler(topic="break-the-child")
def break_the_child(request: Request) -> None:
    """Let what is ours in this child raise, and what is to log it as well."""

    def fail(*args: object, **kwargs: object) -> None:
        raise Nameless

    logging.Logger.error = fail  # type: ignore[method-assign]
    for found in gc.get_objects():
        if type(found).__name__ == "Slots":
            found._finish = fail


@handler(topic="raise-external")
def raise_external(request: Request) -> None:
    raise ValueError("after the call")


@handler(topic="forgotten-await")
def forgotten_await(request: Request) -> Any:
    return coroutine(request)


@handler(topic="marked", effect="marked")
def marked(request: Request) -> str:
    with request.effect():
        pass
    with request.effect():
        return "charged"


@handler(topic="marked-coroutine", effect="marked")
async def marked_coroutine(request: Request) -> str:
    async with request.effect():
        return "charged"


@handler(topic="marked-then-raise", effect="marked")
def marked_then_raise(request: Request) -> None:
    with request.effect():
        raise ValueError("after the call")


@handler(topic="marked-refuses-itself", effect="marked")
def marked_refuses_itself(request: Request) -> None:
    if request.json() == "inside":
        with request.effect():
            raise EffectRefused(request.request_id, request.generation)
    raise EffectRefused(request.request_id, request.generation)


@handler(topic="marked-swallows", effect="marked")
def marked_swallows(request: Request) -> str:
    try:
        with request.effect():
            return "charged"
    except EffectRefused:
        return "pretends"


@handler(topic="write-raw")
def write_raw(request: Request) -> str:
    """Write these bytes to the parent, beside the protocol."""
    for found in gc.get_objects():
        if type(found).__name__ == "Outbox":
            found._sock.sendall(bytes.fromhex(request.json()))
    threading.Event().wait()
    return json.dumps("not reached")
