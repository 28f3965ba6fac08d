"""What handlers do about an order, whatever they declare: begin, misbehave, charge, end."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from typing import Any

from sqlalchemy import text

from consumer import Rejected, Request
from tests.chaos.orders import Deed
from tests.kit.banking import BankConnection

BANK = os.environ["CHAOS_BANK"]
FOR_EVER_S = 3600.0
WEDGES_AFTER_S = 0.2

_local = threading.local()


class Busy(Exception):
    """The bank is busy: nothing has happened, and a resend may help."""


def bank() -> BankConnection:
    """Return this thread's connection; a child is killed with it."""
    if not hasattr(_local, "connection"):
        _local.connection = BankConnection(BANK)
    connection: BankConnection = _local.connection
    return connection


def begin(request: Request) -> dict[str, Any]:
    """Tell the bank who runs what, and work until the charge is due."""
    order: dict[str, Any] = request.json()
    bank().tell("begin", request.request_id, os.getpid())
    if order["gate"]:
        bank().ask("wait", order["gate"])
    _misbehave(order, hang=Deed.HANG, die=Deed.DIE)
    time.sleep(order["takes_ms"] / 2000)
    if order["deed"] == Deed.REJECT:
        raise Rejected("NO_FUNDS", "the account is empty")
    if order["deed"] == Deed.BUSY and request.attempt == 1:
        raise Busy("at the first attempt")
    return order


def _misbehave(order: dict[str, Any], *, hang: Deed, die: Deed) -> None:
    if order["deed"] == hang:
        time.sleep(FOR_EVER_S)
    if order["deed"] == die:
        os.kill(os.getpid(), signal.SIGKILL)


def inside(order: dict[str, Any]) -> None:
    """Do what is due within the effect, before the charge."""
    _misbehave(order, hang=Deed.HANG_INSIDE, die=Deed.DIE_INSIDE)


def end(order: dict[str, Any]) -> dict[str, Any]:
    """Work on, and return the result."""
    time.sleep(order["takes_ms"] / 2000)
    if order["deed"] == Deed.WEDGE:
        threading.Timer(WEDGES_AFTER_S, _wedge).start()
    return {"charged": True}


def charge(request: Request, order: dict[str, Any]) -> None:
    """Charge, as often as this is called."""
    bank().ask("charge", order["name"], request.request_id)


def charge_once(request: Request, order: dict[str, Any]) -> None:
    """Charge by the idempotency key, so that the bank charges once however often it is asked."""
    bank().ask("charge-once", order["name"], request.request_id, request.idempotency_key)


def charge_in_database(request: Request, order: dict[str, Any]) -> None:
    """Charge by a row in the journal's database; without a unique key, a second would show."""
    request.connection.execute(
        text("INSERT INTO chaos_charge (ordered, request_id) VALUES (:ordered, :id)"),
        {"ordered": order["name"], "id": request.request_id},
    )


def _wedge() -> None:
    """Hold the interpreter's lock for ever: no other thread of this process gets on."""
    ctypes.PyDLL(None).sleep(int(FOR_EVER_S))
