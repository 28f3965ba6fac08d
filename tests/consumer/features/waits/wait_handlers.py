"""Handlers of unfinished requests under test: each run is counted in a file.

A worker has those that `TEST_TOPICS` gives a topic (JSON, handler's name to topic).
"""

from __future__ import annotations

from typing import Any

from consumer import Request
from tests.consumer.worker_handlers import _body, _count, _declared, _do


@_declared("kept", delivery="at_least_once", in_doubt="retry_same_key")
def kept(request: Request) -> Any:
    """Ask a bank that knows its requests by their key."""
    _count(request)
    return _do(_body(request))


@_declared("parked", delivery="at_least_once")
def parked(request: Request) -> Any:
    """Have an external effect that must not be repeated."""
    _count(request)
    return _do(_body(request))


@_declared("batched", delivery="batch")
def batched(request: Request) -> Any:
    """Run in batches."""
    _count(request)
    return _do(_body(request))


@_declared("once")
def once(request: Request) -> Any:
    """Be declared otherwise than before."""
    _count(request)
    return _do(_body(request))
