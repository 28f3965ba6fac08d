"""The handlers of the how-to guides in one worker on real servers, and the commands that repair.

One worker, since each costs seconds: a page's topics have names of their own, so that it takes
nothing of another page. What a page leaves to its reader (the bank, the prices) is written here.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert

from onceward import Client, State, Status
from tests.documents import DOCS, ROOT
from tests.eventually import eventually
from tests.how_to.commands import blocks
from tests.kit.settings import toml
from tests.preloaded.programs import INSTALLED, forked_programs
from tests.stack import Servers
from tests.tutorials.page import Command
from tests.tutorials.reader import Reader, reading

# The modules of a page's handlers, each a block of its own.
PAGES = (
    *("effects", "retries", "order", "collapse", "schemas", "outcomes"),
    *("long-handlers", "at-least-once"),
)
# Blocks that other tests run, or that show another tool's code.
ELSEWHERE = {
    "front-door": "tests/producer_client/http/test_routes.py",
    "front-end": "tests/producer_client/test_fastapi_example.py",
    "lifespans": "tests/consumer/pool/test_lifespans.py",
    "migrating": "a consumer of Kafka's as it was before",
    "testing": "tests/face/test_testing.py",
}
YOURS = {
    "bank.py": """
from pathlib import Path
from onceward import InDoubt, Rejected

def charge(payment, key):
    if payment["amount"] > 1000:
        raise InDoubt("no answer")
    if payment["amount"] <= 0:
        raise Rejected("BAD_AMOUNT", "an amount is positive")
    if not Path("bank-is-back").exists():
        raise Rejected("BANK_BUSY", "later")

def is_busy():
    asked = Path("bank-was-asked")
    first = not asked.exists()
    asked.touch()
    return first
""",
    "prices.py": "def newest_version():\n    return 2\n",
}


def code(page: str) -> list[str]:
    """Return the blocks of Python of a page."""
    text = (DOCS / f"how-to/{page}.md").read_text("utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def typed(page: str) -> list[str]:
    """Return the commands that a page shows."""
    return list(blocks((DOCS / f"how-to/{page}.md").read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Shop:
    """A folder with all handlers of the pages, and a worker that runs them."""

    reader: Reader
    client: Client
    group: str

    def ends(self, page: str, topic: str, value: Any, name: str, **given: Any) -> Status:
        """Send a request to a page's topic; return how it ended."""
        place = self.topic(page, topic)
        return self.client.send(value, topic=place, request_id=name, **given).wait(60)

    def topic(self, page: str, topic: str) -> str:
        """Return the name that a page's topic has here."""
        return f"{self.group}.{page}.{topic}"

    def type(self, line: str) -> str:
        """Type a command, say yes, and return its output; it has to end with 0."""
        own = line.replace("payments", self.topic("effects-1", "payments"))
        printed = self.reader.output_of(f"echo y | {own} || echo ENDED WITH $?")
        assert "ENDED WITH" not in printed, f"$ {line}\n{printed}"
        return printed


@pytest.fixture(scope="module")
def shop(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Yield the folder, its worker started."""
    folder, group = tmp_path_factory.mktemp("shop"), f"shop-{uuid.uuid4().hex[:8]}"
    modules = []
    for page in PAGES:
        for number, block in enumerate(code(page), 1):
            own = re.sub(r'(topic=")', rf"\g<1>{group}.{page}-{number}.", block)
            modules.append(f"{page}_{number}".replace("-", "_"))
            (folder / f"{modules[-1]}.py").write_text(own)
    for name, text in YOURS.items():
        (folder / name).write_text(text)
    sections: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap_servers": servers.kafka, "group": group},
        "redis": {"url": servers.redis},
        "journal": {"url": "sqlite:///journal.db"},
        "outbox": {"url": f"sqlite:///{folder}/shop.db"},
        "worker": {"handlers": modules, "processes": 1, "slots_per_process": 4},
        "client": {"topic": f"{group}.effects-1.payments"},
    }
    (folder / "onceward.toml").write_text(toml(sections))
    with (
        forked_programs() as forked,
        reading(folder, servers, programs=[forked, INSTALLED], PYTHONPATH=str(ROOT)) as reader,
    ):
        reader.names.clear()
        reader.follow(Command("onceward-worker migrate", "the journal has version …\n"))
        started = Command("onceward-worker run --create-topics", '…"worker.started"…\n', "worker")
        reader.follow(started)
        with Client(folder / "onceward.toml") as client:
            yield Shop(reader, client, group)


def test_the_handlers_of_each_page_run(shop: Shop) -> None:
    succeeded = [
        shop.ends("effects-2", "payments", {}, "asked"),
        shop.ends("retries-1", "payments", {}, "retried"),
        shop.ends("order-1", "bookings", {}, "booked", key="seat-7"),
        shop.ends("long-handlers-1", "reports", {"rows": 3}, "reported"),
        shop.ends("at-least-once-1", "mails", {}, "mailed"),
        shop.ends("outcomes-1", "payments", {}, "told"),
        shop.ends("collapse-1", "recalculations", {"version": 2}, "new", key="price-7"),
        shop.ends("schemas-1", "payments", {"card": "c", "amount": 5}, "fits"),
    ]
    assert [(one.request_id, one.state) for one in succeeded if one.state != "SUCCEEDED"] == []
    assert succeeded[-1].result == 5
    late = shop.ends("collapse-1", "recalculations", {"version": 1}, "old", key="price-7")
    assert (late.state, late.code) == (State.SKIPPED, "NOT_APPLICABLE")
    wrong = shop.ends("schemas-1", "payments", {"card": "c"}, "wrong")
    assert (wrong.state, wrong.code) == (State.FAILED, "INVALID_MESSAGE")
    assert "amount" in str(wrong.message)


def test_the_commands_of_dead_letters_redrive_and_pauses_do_what_they_say(shop: Shop) -> None:
    ends = {
        name: shop.ends("effects-1", "payments", {"amount": amount}, name)
        for name, amount in (("order-6", 5), ("order-7", 5000), ("order-8", -5))
    }
    assert [one.code for one in ends.values()] == ["BANK_BUSY", "IN_DOUBT", "BAD_AMOUNT"]
    eventually(lambda: {"order-6", "order-8"} <= _lettered(shop.reader.folder))

    listed, shown = (shop.type(line) for line in typed("dead-letters"))
    assert "order-6" in listed and "order-8" not in listed
    assert "order-7" in shown and "IN_DOUBT" in shown

    (shop.reader.folder / "bank-is-back").touch()
    for line in typed("redrive"):
        shop.type(line)
    assert shop.client.wait("order-6", timeout_s=60).state is State.SUCCEEDED
    resolved = shop.client.status("order-7")
    assert (resolved.state, resolved.result) == (State.SUCCEEDED, {"receipt": 7})
    assert shop.type("onceward-dlq list").count("order-8") == 0

    _, listed, _ = (shop.type(line) for line in typed("paused-topics"))
    assert "the bank asked us to" in listed
    assert shop.type("onceward-worker paused").count("the bank asked us to") == 0


def test_the_send_of_the_outbox_reaches_its_handler(shop: Shop) -> None:
    shop.type("onceward-client outbox migrate")
    engine = create_engine(f"sqlite:///{shop.reader.folder}/shop.db")
    tables = MetaData()
    orders = Table("orders", tables, Column("id", Integer, primary_key=True))
    tables.create_all(engine)
    (block,) = [one for one in code("outbox") if "engine.begin()" in one]
    given = {"engine": engine, "insert": insert, "orders": orders, "order_id": 9}
    given |= {"client": shop.client, "customer": "c-1"}
    exec(block.replace('"payments"', repr(shop.topic("outcomes-1", "payments"))), given)
    shop.reader.follow(Command("onceward-client relay", "", "relay"))
    assert given["handle"].wait(60).state is State.SUCCEEDED  # type: ignore[attr-defined]
    engine.dispose()


def test_each_block_of_python_is_run_somewhere() -> None:
    pages = {path.stem for path in (DOCS / "how-to").glob("*.md") if code(path.stem)}
    assert pages == {*PAGES, *ELSEWHERE, "outbox"}
    # The other block of the outbox is a file of tests/producer_client/outbox.
    assert len(code("outbox")) == 2


def _lettered(folder: Path) -> set[str]:
    written = "SELECT request_id FROM onceward_request WHERE dead_letter_at IS NOT NULL"
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        return {str(one) for (one,) in connection.execute(written)}
