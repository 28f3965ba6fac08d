"""Transactional handlers; they write into a table `seat` beside the journal."""

import os

from sqlalchemy import text

from consumer.handlers.decorator import handler
from consumer.handlers.errors import Rejected
from consumer.handlers.request import Request


def _book(request: Request) -> None:
    seat = {"seat": request.request_id}
    request.connection.execute(text("INSERT INTO seat (name) VALUES (:seat)"), seat)


@handler(topic="book", effect="transactional")
def book(request: Request) -> dict[str, str]:
    _book(request)
    return {"seat": request.request_id}


@handler(topic="book-and-raise", effect="transactional")
def book_and_raise(request: Request) -> None:
    _book(request)
    raise ValueError("after the write")


@handler(topic="book-and-reject", effect="transactional")
def book_and_reject(request: Request) -> None:
    _book(request)
    raise Rejected("TAKEN", "the seat is taken")


_tries: set[str] = set()


@handler(topic="book-and-try", effect="transactional", retry_on=OSError, blocking="1ms")
def book_and_try(request: Request) -> None:
    _book(request)
    if request.request_id not in _tries:
        _tries.add(request.request_id)
        raise ConnectionError("after the write")


@handler(topic="book-and-die", effect="transactional")
def book_and_die(request: Request) -> None:
    _book(request)
    os._exit(1)
