"""Where a row happens: bank, journal, clients, workers and a resender, for it alone."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeVar

from feedback.errors import NotAvailable
from feedback.settings.settings import load
from onceward.servers.keeper import Keeper, ServerCommand
from producer_client import Client
from tests.chaos.clients import Clients
from tests.chaos.fleet import Fleet
from tests.chaos.ground import Ground
from tests.chaos.journal import JournalView
from tests.chaos.membership import members_of
from tests.chaos.orders import OrderBook
from tests.chaos.place import Place
from tests.chaos.row import Row
from tests.demo.topic import Topics
from tests.eventually import eventually
from tests.kit.banking import BankAccount, BankConnection, account_of
from tests.kit.program import KeptProgram

PATIENCE_S = 30.0
BANK_WITHIN_S = 20.0
JOINED_WITHIN_S = 60.0
PROGRESS_WITHIN_S = 300.0
FLOWS_WHEN_TOLD = 30
SLOWEST_MS = 600

T = TypeVar("T")


class Scene:
    """What a row acts on.

    Attributes:
        row: what happens here.
        random: drawn from by the faults, so that a seed repeats them.
        orders: of the load.
        clients: send it, and note what they are told.
        fleet: the workers.
        place: names, settings and commands.
        ground: the servers.
    """

    def __init__(
        self, row: Row, place: Place, *, seed: int, short: bool, keeper: Keeper, ground: Ground
    ) -> None:
        self._short = short
        self._seed = seed
        self._keeper = keeper
        self._ends = ExitStack()
        self.row = row
        self.place = place
        self.ground = ground
        self.random = Random(f"{row.fault} {seed}")
        self.orders = OrderBook(row.fault, seed, troubles=row.troubles)
        self.fleet = Fleet(
            lambda name, variables: KeptProgram(keeper, place.worker_command(name, variables))
        )

    def open(self) -> None:
        """Start everything but the workers.

        Raises:
            NotAvailable: something does not answer.
        """
        place = self.place
        self._keeper.start(place.bank_command())
        self.journal = JournalView(place.journal.direct, place.name)
        self.topics = self._ends.enter_context(
            Topics(place.kafka, *place.topics.values(), replication=self.ground.replication)
        )
        self.client = self._ends.enter_context(Client(load(place.settings_file)))
        orders = (self.orders.order(number) for number in count())
        self.clients = self._ends.enter_context(
            Clients(
                self.client,
                topics=place.name,
                orders=orders,
                patience_s=max(PATIENCE_S, self.row.tell_within_s),
            )
        )
        eventually(self._bank_answers, timeout_s=BANK_WITHIN_S, what="the bank")
        self.resender = KeptProgram(self._keeper, place.resender_command())

    def close(self) -> None:
        """End the clients; the processes are the keeper's."""
        self._ends.close()

    # what rows say -------------------------------------------------------------------------

    def size(self, full: T, *, short: T) -> T:
        """Return how much there is of something, in the full table or in the short one."""
        return short if self._short else full

    def pause(self, seconds: float) -> None:
        """Let time pass: here it is what a fault is made of, not something to be awaited."""
        time.sleep(seconds)

    def ask_bank(self, *words: object) -> str:
        """Ask the bank something."""
        connection = BankConnection(self.place.bank)
        try:
            return connection.ask(*words)
        finally:
            connection.close()

    def bank_account(self) -> BankAccount:
        """Return all that the bank knows."""
        return account_of(self.place.bank)

    def begun(self) -> int:
        """Return how many runs handlers have begun."""
        return int(self.ask_bank("begun"))

    def start_workers(self, count: int) -> list[KeptProgram]:
        """Start the first workers, and return them when all have joined the group.

        The load begins after that: how long a group takes to form is no fault's doing.

        Raises:
            NotAvailable: one did not start.
            TimeoutError: they did not form a group.
        """
        started = self.fleet.start(count)
        eventually(
            lambda: members_of(self.place.kafka, self.place.name) >= count,
            timeout_s=JOINED_WITHIN_S,
            interval_s=0.2,
            what=f"a group of {count}",
        )
        return started

    def start_caller(
        self,
        way: str,
        *,
        first: int,
        count: int,
        settings: Path | None = None,
        outbox: str = "",
    ) -> KeptProgram:
        """Start a program that sends these orders; see `caller`.

        Args:
            settings: other ones than the row's.
            outbox: the URL of its database.
        """
        file = settings or self.place.settings_file
        words = (way, file, self.row.fault, self._seed, first, count, self.place.name)
        given = (*words, outbox) if outbox else words
        command = self.place.caller_command(f"caller-{first}", tuple(map(str, given)))
        return KeptProgram(self._keeper, command)

    def run_to_its_end(self, command: ServerCommand, *, within_s: float) -> None:
        """Run a command.

        Raises:
            StackError: it failed, or took longer.
        """
        self._keeper.run(command, timeout_s=within_s)

    def start_relay(self, url: str) -> KeptProgram:
        """Start a relay of this outbox."""
        return KeptProgram(self._keeper, self.place.relay_command(url))

    def start_door(self, port: int, topic: str) -> KeptProgram:
        """Start a front door for a topic there, and return it when it serves."""
        door = KeptProgram(self._keeper, self.place.door_command(port, topic))
        door.told("http.started")
        return door

    def await_progress(self, told: int) -> None:
        """Return when so many clients have been told.

        Raises:
            NotAvailable: a worker ended by itself.
            TimeoutError: the load has not come so far.
        """

        def has_come() -> bool:
            if ended := self.fleet.ended_by_themselves:
                raise NotAvailable(f"{'; '.join(ended)}; logs are in {self.place.folder}")
            return self.clients.told >= told

        eventually(
            has_come,
            timeout_s=PROGRESS_WITHIN_S,
            interval_s=0.01,
            what=f"{told} clients told",
        )

    def take_longer(self) -> None:
        """Have handlers take longer, so that some run whenever something is hurt."""
        self.orders = replace(self.orders, slowest_ms=SLOWEST_MS)

    def flow(self, seconds: float) -> None:
        """Let the load flow for so long, counted from when it does: a slow machine begins late."""
        self.await_progress(self.clients.told + FLOWS_WHEN_TOLD)
        self.pause(seconds)

    def await_told(self) -> bool:
        """Send nothing more; return whether every client was told within the row's time."""
        self.clients.stop()
        limit_s = self.row.tell_within_s
        try:
            eventually(
                lambda: self.clients.open_count == 0,
                timeout_s=limit_s,
                interval_s=0.1,
                what="the last client told",
            )
        except TimeoutError:
            return False
        return True

    def _bank_answers(self) -> bool:
        try:
            return self.begun() == 0
        except ConnectionRefusedError:
            return False
