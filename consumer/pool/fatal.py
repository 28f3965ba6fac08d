"""A fault of the child's own code ends the child: a slot that is silently gone would be a stall."""

from __future__ import annotations

import faulthandler
import functools
import logging
import os
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

from feedback.logs import EventLog

BROKEN_EXIT_CODE = 70

_LAST_WORDS_S = 5.0

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
            _end(function.__qualname__)

    return guarded


def _end(where: str) -> NoReturn:
    try:
        # Who reads our stderr may read no more: then this process ends without its last words.
        faulthandler.dump_traceback_later(
            _LAST_WORDS_S, exit=True, file=os.open(os.devnull, os.O_WRONLY)
        )
        _log.exception("child.broken", where=where)
        logging.shutdown()
    finally:  # even if the error cannot be logged, or a log handler of the user's fails
        os._exit(BROKEN_EXIT_CODE)
