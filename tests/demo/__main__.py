"""`python -m tests.demo`: payments, a worker killed on the way, and the account of them."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from rich.console import Console

from feedback.clock import epoch_ms
from feedback.errors import ExitCode, NotAvailable, OncewardError
from feedback.settings.settings import load
from onceward.servers.errors import StackError
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from producer_client import Client
from tests.demo.audit import audit
from tests.demo.closing import print_closing, write_json
from tests.demo.cut import Cut
from tests.demo.payments import Payments
from tests.demo.plan import WORKERS, Plan
from tests.demo.scene import PROCESSES, ROOT, SLOTS_PER_PROCESS, Scene, prepare
from tests.demo.show import Show
from tests.demo.topic import Topics
from tests.demo.verdict import Verdict, judge
from tests.demo.workers import Workers
from tests.eventually import eventually
from tests.kit.bank import charges_at
from tests.kit.screen import Screen
from tests.stack.restartable import restartable
from tests.stack.servers import KAFKA

TELL_WITHIN_S = 90.0
MIGRATE_WITHIN_S = 60.0
BANK_WITHIN_S = 20.0


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    console = Console(highlight=False)
    try:
        return _demo(asked, console)
    except (OncewardError, StackError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, OncewardError) else ExitCode.NOT_AVAILABLE
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 128 + signal.SIGINT


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.demo",
        description="Payments through real servers; a worker is killed on the way.",
        epilog="The servers come from the environment: run it by `make demo`, or as "
        "`python -m tests.stack -- python -m tests.demo`.",
    )
    add = parser.add_argument
    add("--payments", type=_count, default=2000, metavar="N", help="2000 by default")
    add("--rate", type=_positive, default=110.0, metavar="R", help="payments/s, 110 by default")
    add("--journal", choices=("postgres", "sqlite"), default="postgres")
    add("--seed", type=int, default=1, help="decides which worker dies, and when")
    add(
        "--kill-every",
        type=_positive,
        metavar="S",
        help="after the first kill, kill again every S seconds while payments are being sent",
    )
    add(
        "--cut-kafka",
        type=_positive,
        nargs="?",
        const=20.0,
        metavar="S",
        help="kill Kafka (the demo's own) on the way, and start it again after S seconds, 20 by "
        "default; clients then have an outbox to fall back on, and a relay runs",
    )
    add(
        "--no-audit", dest="audits", action="store_false", help="the bank's account alone: no Spark"
    )
    add("--output", type=Path, default=ROOT / "build", metavar="FOLDER", help="build by default")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text}: must be from 1 to 100000")
    return value


def _demo(asked: argparse.Namespace, console: Console) -> int:
    result = asked.output / "demo.json"
    result.unlink(missing_ok=True)  # a run that does not end leaves no verdict of another
    slots = PROCESSES * SLOTS_PER_PROCESS
    console.print(
        f"[bold]Onceward[/bold]  {asked.payments:,} payments, {WORKERS} workers of {slots} slots; "
        "one worker is killed on the way\n"
    )
    with Keeper() as keeper, _own_broker(asked, keeper) as cut:
        began_ms = epoch_ms()
        scene = prepare(
            asked.output, journal=asked.journal, environ=os.environ, has_outbox=cut is not None
        )
        _migrate(keeper, scene)
        logging.basicConfig(filename=scene.folder / "client.log", level=logging.WARNING)
        with (
            Client(load(scene.settings_file), outbox=scene.outbox_url or None) as client,
            Topics(scene.kafka, scene.name) as topics,
            Screen(console) as screen,
        ):
            workers = Workers(keeper, scene, client.store)
            _open(keeper, scene, screen, workers)
            payments = Payments(
                client,
                records=topics.records if cut is None else cut.counted(topics.records),
                ids=[f"payment-{number + 1:05}" for number in range(asked.payments)],
                rate=asked.rate,
                tell_within_s=TELL_WITHIN_S,
            )
            plan = Plan(asked.payments, asked.seed, asked.kill_every)
            Show(payments, workers, screen=screen, plan=plan, cut=cut).run()
            verdict = _verdict(payments, scene)
            audited = None
            if asked.audits:
                screen.say("the audit reads topic and journal, and judges for itself")
                audited = audit(keeper, scene, began_ms=began_ms)
        write_json(verdict, result)
        print_closing(console, verdict, payments.waits, scene=scene, path=result, audited=audited)
    return verdict.exit_code if audited is None else verdict.exit_code or audited.exit_code


def _open(keeper: Keeper, scene: Scene, screen: Screen, workers: Workers) -> None:
    """Have the journal, the bank and the workers ready."""
    kind = scene.journal_url.partition(":")[0].partition("+")[0]
    screen.say(f"topic and group are {scene.name}, the journal is {kind}")
    keeper.start(scene.bank_command())
    if scene.outbox_url:
        keeper.start(scene.relay_command())
        screen.say("clients have an outbox for when Kafka is away; a relay sends what is in it")
    eventually(lambda: _is_open(scene.bank), timeout_s=BANK_WITHIN_S, what="the bank")
    screen.say("the bank is open: it charges as often as it is asked")
    workers.start(WORKERS)
    named = " and ".join(f"{worker.name} (pid {worker.pid})" for worker in workers.all)
    screen.say(f"{named} are alive; now the payments")


@contextmanager
def _own_broker(asked: argparse.Namespace, keeper: Keeper) -> Iterator[Cut | None]:
    """Yield what takes Kafka away, where that is wanted: then the demo has a broker of its own."""
    if asked.cut_kafka is None:
        yield None
        return
    with restartable(Broker, keeper=keeper) as broker:
        os.environ[KAFKA] = broker.address
        cut = Cut(broker, asked.cut_kafka)
        try:
            yield cut
        finally:
            cut.close()


def _migrate(keeper: Keeper, scene: Scene) -> None:
    try:
        keeper.run(scene.migrate_command(), timeout_s=MIGRATE_WITHIN_S)
        if scene.outbox_url:
            keeper.run(scene.outbox_command(), timeout_s=MIGRATE_WITHIN_S)
    except StackError as error:
        raise NotAvailable(f"the journal's tables were not made:\n{error.log}") from error


def _is_open(bank: str) -> bool:
    try:
        return charges_at(bank) == {}
    except ConnectionRefusedError:
        return False


def _verdict(payments: Payments, scene: Scene) -> Verdict:
    try:
        charges = charges_at(scene.bank)
    except (OSError, HTTPException) as error:
        raise NotAvailable(f"the bank does not show its account: {error}") from error
    return judge(
        payments.told,
        charges,
        not_sent=payments.not_sent,
        resent=payments.resent(),
        seconds=payments.seconds,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
