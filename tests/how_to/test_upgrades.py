"""docs/how-to/upgrades.md: a journal of the version before is migrated below a worker that runs.

The older worker is this one, made to believe in the older tables: it starts on them alone, and
makes and asks for nothing that they lack.
"""

from __future__ import annotations

import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from consumer.journal import migrations
from consumer.journal.tables import SCHEMA_VERSION, meta
from feedback.sql.versions import write_value
from onceward import Client, State
from tests.documents import DOCS, ROOT
from tests.eventually import eventually
from tests.how_to.commands import blocks
from tests.kit.settings import toml
from tests.stack import Servers
from tests.stack.postgres import fresh_database
from tests.tutorials.page import Command
from tests.tutorials.reader import reading

OLDER = SCHEMA_VERSION - 1
HANDLER = """
import time
from pathlib import Path
from typing import Any
from onceward import Request, handler

@handler(topic={topic!r}, effect="marked")
def charge(request: Request) -> int:
    with request.effect():
        while request.request_id == "slow" and not Path("go").exists():
            time.sleep(0.05)
    return 5
"""
# A worker of the version before, as `python older.py run`: it knows no copy of the open requests.
OLDER_WORKER = f"""
import consumer.journal.schema
from sqlalchemy import literal, select
from consumer.journal import open_requests, tables
consumer.journal.schema.SCHEMA_VERSION = {OLDER}
open_requests._VIEW = tables.request
open_requests._LOOKS = select(literal(1))
from consumer.__main__ import main
if __name__ == "__main__":
    main()
"""


def older_journal(url: str) -> None:
    """Make the tables of the version before, by its migrations."""
    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, f"{OLDER:04}")
        write_value(connection, meta, "schema_version", str(OLDER))
        write_value(connection, meta, "journal_id", uuid.uuid4().hex)
    engine.dispose()


def test_the_journal_is_migrated_below_an_older_worker_and_workers_are_replaced(
    servers: Servers, tmp_path: Path
) -> None:
    topic = f"up_{uuid.uuid4().hex[:8]}"
    (tmp_path / "payments.py").write_text(HANDLER.format(topic=topic))
    (tmp_path / "older.py").write_text(OLDER_WORKER)
    older = f"{shlex.quote(sys.executable)} older.py run"
    with (
        fresh_database(servers.postgres, topic) as url,
        reading(
            tmp_path, servers, programs=[Path(sys.executable).parent], PYTHONPATH=str(ROOT)
        ) as by,
    ):
        by.names.clear()
        older_journal(url)
        sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": servers.kafka, "group": topic},
            "redis": {"url": servers.redis},
            "journal": {"url": url},
            "worker": {"handlers": ["payments"], "processes": 1},
        }
        settings = tmp_path / "onceward.toml"
        settings.write_text(toml(sections))
        by.follow(Command(f"{older} --create-topics &", '…"worker.started"…\n', "older"))
        with Client(settings) as client:

            def ends(name: str) -> object:
                return client.send({}, topic=topic, request_id=name).wait(60).state

            assert ends("before") is State.SUCCEEDED
            client.send({}, topic=topic, request_id="slow")
            eventually(lambda: client.status("slow").state is State.RUNNING)

            early = by.output_of("onceward-worker run; echo ended with $?")
            assert f"the journal has version {OLDER}" in early and "ended with 2" in early
            (migrating, *_) = [line for line in _page() if "migrate" in line]
            assert f"version {SCHEMA_VERSION}" in by.output_of(migrating)

            (tmp_path / "go").touch()
            assert client.wait("slow", timeout_s=60).state is State.SUCCEEDED
            assert ends("after") is State.SUCCEEDED

            by.follow(Command("onceward-worker run", '…"worker.started"…\n', "newer"))
            by.follow(Command("kill $!; wait $!", '…"worker.stopped"…\n', "older"))
            assert ends("later") is State.SUCCEEDED
            late = by.output_of(f"{older}; echo ended with $?")
            assert f"the journal has version {SCHEMA_VERSION}" in late and "ended with 2" in late

            again = client.send({}, topic=topic, request_id="before").wait(60)
            assert (again.state, again.result, again.generation) == (State.SUCCEEDED, 5, 1)


def _page() -> list[str]:
    return list(blocks((DOCS / "how-to/upgrades.md").read_text("utf-8")))
