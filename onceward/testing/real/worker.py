"""The worker of a bench: a process of its own, asked over HTTP whether it has more to do."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from onceward.dev.session_plan import GROUP, HANDLERS, JOURNAL
from onceward.servers.errors import StackError, tail
from onceward.servers.keeper import ServerCommand
from onceward.servers.polling import eventually
from onceward.servers.ports import HOST, free_port
from onceward.testing.real.child_plan import VARIABLE, ChildPlan
from onceward.testing.real.servers import RealServers

START_S = 60.0
PAGE_S = 10.0
# It leaves its group meanwhile.
STOP_S = 3.0
# A database that does not answer is noticed so soon.
JOURNAL_TIMEOUT_S = 0.5
_numbers = itertools.count(1)


class BenchWorker:
    """`onceward worker run` with one slot, and a spare child for the one that dies.

    Args:
        servers: whose keeper runs it.
        group: its consumer group.
        journal_url: migrated.
        plan: its one handler.

    Raises:
        StackError: it did not start; holds the end of its log.
    """

    def __init__(
        self, servers: RealServers, *, group: str, journal_url: str, plan: ChildPlan
    ) -> None:
        self._keeper = servers.keeper
        self._url = f"http://{HOST}:{(port := free_port())}"
        self._log = self._keeper.folder / f"bench-{next(_numbers)}.log"
        given = {
            VARIABLE: plan.encode(),
            "PYTHONPATH": ":".join(one for one in sys.path if one),
            GROUP: group,
            JOURNAL: journal_url,
            HANDLERS: "onceward.testing.real.child",
            "ONCEWARD_JOURNAL__TIMEOUT_S": JOURNAL_TIMEOUT_S,
            "ONCEWARD_WORKER__PROCESSES": 1,
            "ONCEWARD_WORKER__SLOTS_PER_PROCESS": 1,
            "ONCEWARD_WORKER__SPARE_PROCESSES": 1,
            "ONCEWARD_WORKER__CREATE_TOPICS": "true",
            "ONCEWARD_WORKER__HTTP_HOST": HOST,
            "ONCEWARD_WORKER__HTTP_PORT": port,
            "ONCEWARD_ALERTS__WEBHOOK_URL": "",
        }
        if servers.file is not None:
            given["ONCEWARD_CONFIG"] = servers.file
        words = (f"{name}={value}" for name, value in given.items())
        run = (sys.executable, "-m", "onceward", "worker", "run")
        self._pid = self._keeper.start(
            ServerCommand(("env", *words, *run), folder=self._keeper.folder, log=self._log)
        )
        eventually(self._is_ready, timeout_s=START_S, what=f"a worker of {plan.name}")

    def has_read(self, records: int) -> bool:
        """Return whether it has read so many since its start, and has nothing more to do.

        Raises:
            StackError: it has ended.
        """
        samples = self._samples()
        read = sum(value for name, value in samples if name == "onceward_deliveries_total")
        untold = sum(value for name, value in samples if name == "onceward_statuses_waiting")
        # Counted before: what is read stands there, until its end is written.
        return read >= records and not untold and self._ready()["oldest_unfinished"] is None

    @property
    def journal_away(self) -> bool:
        """Whether it has noticed that its journal does not answer."""
        return "journal" in self._ready()["missing"]

    def close(self) -> None:
        """End it; nothing that it holds matters any more."""
        self._keeper.stop(self._pid, limit_s=STOP_S)

    def fault(self, text: str) -> StackError:
        """Return an error with the end of its log."""
        return StackError(text, tail(self._log))

    def _is_ready(self) -> bool:
        try:
            return bool(self._ready()["ready"])
        except requests.ConnectionError:
            return False

    def _ready(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._get("ready").json()
        return found

    def _samples(self) -> list[tuple[str, float]]:
        families = text_string_to_metric_families(self._get("metrics").text)
        return [(sample.name, sample.value) for family in families for sample in family.samples]

    def _get(self, page: str) -> requests.Response:
        if (code := self._keeper.exit_code(self._pid)) is not None:
            raise self.fault(f"the worker of the bench ended with code {code}")
        return local_page(f"{self._url}/{page}")


def local_page(url: str) -> requests.Response:
    """Return a page of a server on this machine, which the network's proxy would not find."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=PAGE_S)
