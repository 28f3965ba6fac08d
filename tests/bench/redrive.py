"""What a redrive costs: letters a second, memory, and that a kill neither repeats nor forgets.

    python -m tests.bench.redrive [--letters 100000]

It makes dead letters and their rows, runs `onceward-dlq redrive --all` on them, and counts in the
topic what came back. The rows of `build/bench/redrive.json`: journal, letters, kills, seconds (of
the redrive by the journal's clock, without the start of Python), letters_per_s, wall_s,
peak_pss_mib, sent_twice, forgotten.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from sqlalchemy import NullPool, create_engine, select

from consumer.dlq.redrive.record import sent_by
from consumer.journal import migrate
from consumer.journal.tables import redrive
from feedback.clock import monotonic_s
from feedback.kafka.scan import KafkaScan
from feedback.settings.settings import KafkaSection
from tests.bench.rows import write_json
from tests.bench.systems.onceward import fresh_journal
from tests.consumer.dlq.redrive.planting import plant
from tests.kit.program import ROOT
from tests.kit.settings import environment, toml
from tests.stack import Servers, Stack

OUTPUT = ROOT / "build" / "bench" / "redrive.json"
SAMPLE_S = 0.1
COMMAND = (sys.executable, "-m", "consumer.dlq", "redrive", "--yes", "--json")


@dataclass(frozen=True, slots=True)
class Figure:
    """One run; see the module for the fields."""

    journal: str
    letters: int
    kills: int
    seconds: float
    letters_per_s: float
    wall_s: float
    peak_pss_mib: float
    sent_twice: int
    forgotten: int


def measure(
    servers: Servers, journal: str, journal_url: str, folder: Path, *, letters: int, kills: int
) -> Figure:
    """Make letters, redrive them with so many kills on the way, and count what came back."""
    migrate(journal_url)
    group, topic = f"group-{uuid.uuid4().hex}", f"topic-{uuid.uuid4().hex}"
    plant(kafka=servers.kafka, journal_url=journal_url, group=group, topic=topic, letters=letters)
    config = folder / f"{group}.toml"
    sections = {
        "kafka": {"bootstrap_servers": servers.kafka, "group": group},
        "redis": {"url": servers.redis},
        "journal": {"url": journal_url},
    }
    config.write_text(toml(sections))
    began_s, peak_bytes = monotonic_s(), 0
    chance = random.Random(letters)
    for _ in range(kills):
        # Into the work: as far as its first share, and a moment that nobody chose.
        wait_s = 1.5 + chance.random() * letters / 10_000 / (kills + 1)
        peak_bytes = max(peak_bytes, _run(_wanted(journal_url, config), kill_after_s=wait_s))
    peak_bytes = max(peak_bytes, _run(_wanted(journal_url, config), kill_after_s=None))
    wall_s = monotonic_s() - began_s
    sent = _sent(servers.kafka, topic, _redrive_id(journal_url) or "")
    seconds = _seconds(journal_url)
    return Figure(
        journal=journal,
        letters=letters,
        kills=kills,
        seconds=round(seconds, 2),
        letters_per_s=round(letters / seconds),
        wall_s=round(wall_s, 2),
        peak_pss_mib=round(peak_bytes / 2**20, 1),
        sent_twice=sum(count - 1 for count in sent.values()),
        forgotten=letters - len(sent),
    )


def _wanted(journal_url: str, config: Path) -> tuple[str, ...]:
    begun = _redrive_id(journal_url)
    what = ("--all",) if begun is None else ("--resume", begun)
    return (*COMMAND, *what, "--config", str(config))


def _run(command: tuple[str, ...], *, kill_after_s: float | None) -> int:
    """Run a redrive, to its end or to its kill; return the most memory that was seen, in bytes."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    watched, peak, began_s = psutil.Process(process.pid), 0, monotonic_s()
    while process.poll() is None:
        try:
            peak = max(peak, watched.memory_full_info().pss)
            left_s = SAMPLE_S
            if kill_after_s is not None:
                left_s = min(SAMPLE_S, began_s + kill_after_s - monotonic_s())
            if left_s <= 0:
                process.kill()
                break
            process.wait(left_s)
        except subprocess.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            break
    output, _ = process.communicate()
    if kill_after_s is None and process.returncode != 0:
        raise RuntimeError(f"the redrive ended with {process.returncode}: {output.decode()}")
    return peak


def _redrive_id(journal_url: str) -> str | None:
    engine = create_engine(journal_url, poolclass=NullPool)
    with engine.connect() as connection:
        return connection.execute(select(redrive.c.redrive_id)).scalar()


def _seconds(journal_url: str) -> float:
    engine = create_engine(journal_url, poolclass=NullPool)
    with engine.connect() as connection:
        times = select(redrive.c.updated_at - redrive.c.started_at)
        return float(connection.execute(times).scalar_one()) / 1000


def _sent(kafka: str, topic: str, redrive_id: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with KafkaScan(KafkaSection(bootstrap_servers=kafka), committed_only=False) as scan:
        for page in scan.pages(scan.spans([topic])):
            found.update(sent_by(one.headers, redrive_id) or "" for one in page.records)
    return found


def main() -> None:
    """Measure each journal at a tenth and at all letters, and once with kills."""
    parser = argparse.ArgumentParser(description="What a redrive costs.")
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=4)
    given = parser.parse_args()
    figures = []
    cases = [(given.letters // 10, 0), (given.letters, 0), (given.letters, given.kills)]
    with Stack.start() as servers:
        for letters, kills in cases:
            for journal in ("postgres", "sqlite"):
                with (
                    tempfile.TemporaryDirectory() as name,
                    fresh_journal(servers, journal, Path(name)) as url,
                ):
                    figure = measure(
                        servers, journal, url, Path(name), letters=letters, kills=kills
                    )
                figures.append(figure)
                print(json.dumps(asdict(figure)), flush=True)
    write_json(OUTPUT, [asdict(one) for one in figures])


if __name__ == "__main__":
    main()
