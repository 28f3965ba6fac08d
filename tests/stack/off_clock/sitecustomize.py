"""Imported by Python itself, at its start, where PYTHONPATH names this folder: a clock that is off.

libfaketime (0.9.10) cannot be had for this: with the monotonic clock left alone its
`clock_nanosleep` refuses the absolute times of `time.sleep`, and with it faked locks wait too long.
"""

import os
import time

_OFF_S = float(os.environ["CLOCK_OFF_BY_S"])
_OFF_NS = int(_OFF_S * 1e9)
_time = time.time
_time_ns = time.time_ns

time.time = lambda: _time() + _OFF_S
time.time_ns = lambda: _time_ns() + _OFF_NS
