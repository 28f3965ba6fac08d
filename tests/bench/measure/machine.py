"""Where and with what was measured."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

LIBRARIES = ("kafka-python", "confluent-kafka", "redis", "hiredis", "SQLAlchemy", "psycopg")


def machine() -> dict[str, str]:
    """Return date, CPU, memory and versions, each by its name."""
    memory_gib = psutil.virtual_memory().total / 2**30
    facts = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": f"{_cpu_model()}, {psutil.cpu_count()} cores, {memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
    }
    facts["libraries"] = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return facts


def cpu_model(cpuinfo: Sequence[str]) -> str | None:
    """Return the model named in the lines of `/proc/cpuinfo`.

    >>> cpu_model(["processor : 0", "model name : Fast One"])
    'Fast One'
    """
    for line in cpuinfo:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return cpu_model(lines) or platform.machine()
