"""A fault of the child's own code ends the child: a slot that is silently gone would be a stall."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from feedback.logs import EventLog

BROKEN_EXIT_CODE = 70

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")
_log = EventLog("onceward.child")


def ends_child(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
    """Make anything that the function raises the end of this process, with its stack in the log."""

    @functools.wraps(function)
    def guarded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        try:
            return function(*args, **kwargs)
        except BaseException:
            _log.exception("child.broken", where=function.__qualname__)
            logging.shutdown()
            os._exit(BROKEN_EXIT_CODE)

    return guarded
