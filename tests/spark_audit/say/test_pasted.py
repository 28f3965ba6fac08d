"""The page's commands, pasted into a shell on real servers."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.journal.records import JournalState
from feedback.records.envelope import payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State as Told
from spark_audit.findings import URGENT, Finding
from spark_audit.judge.status_check import Disagreement
from spark_audit.say.cards import GAPS, CardSources
from spark_audit.say.page import render
from spark_audit.say.resend_lines import ResendLines, resend_line
from spark_audit.stage.gaps import Gap
from tests import preloaded
from tests.kit.settings import environment
from tests.spark_audit.say.reading import read
from tests.spark_audit.say.samples import found_request, summary
from tests.spark_audit.stage.journal import HandWritten
from tests.stack import Servers

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
LIMIT_S = 60.0
# Pasted carelessly they would be options, or run what they name.
LOST, DOUBT, FAILED = "order-7", "-n;`touch${IFS}run`'\"$(touch${IFS}run)", "--yes"
MODULES = {
    "onceward-worker": "consumer",
    "onceward-client": "producer_client",
    "onceward-dlq": "consumer.dlq",
}


class Shell:
    """A shell in the folder of the page, with our commands on its path.

    There a command is a script that writes down its words. It then runs by these, without the
    second that each process of its own takes to import.
    """

    def __init__(self, settings: dict[str, str], folder: Path, bin_folder: Path) -> None:
        self._words = bin_folder / "words"
        for name, module in MODULES.items():
            script = (
                f"#!/bin/sh\nprintf '%s\\0' {module} \"$@\" > {shlex.quote(str(self._words))}\n"
            )
            (bin_folder / name).write_text(script)
            (bin_folder / name).chmod(0o755)
        self._folder = folder
        self._env = environment(**settings, PATH=f"{bin_folder}:/usr/bin:/bin")

    def paste(self, command: str) -> tuple[int, str]:
        """Return the command's exit code, and all that it said."""
        self._words.unlink(missing_ok=True)
        typed = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert (typed.returncode, typed.stdout + typed.stderr) == (0, ""), command
        module, *arguments = self._words.read_text().split("\0")[:-1]
        done = preloaded.run(
            [sys.executable, "-m", module, *arguments],
            environ=self._env,
            timeout_s=LIMIT_S,
            cwd=self._folder,
        )
        return done.returncode, done.stdout + done.stderr


def _commands() -> list[str]:
    """Return all commands of a page with each finding, whose requests failed or are in doubt."""
    kinds = [one for one in URGENT if one not in GAPS]
    ids = dict.fromkeys(kinds, DOUBT) | {Finding.FAILED_WITHOUT_DEAD_LETTER: FAILED}
    first = {one: [found_request(name, one)] for one, name in ids.items()}
    gaps = [Gap(Finding.OFFSET_GAP, "payments", 0, 1, 2, 1)]
    told = [Disagreement(DOUBT, "IN_DOUBT", "FAILED")]
    found = summary(dict.fromkeys(URGENT, 1), gaps=gaps, disagreements=told, resend=ResendLines(1))
    page = read(render(found, CardSources(first, {}, ())))
    texts = [one.text for item in page.all("ul", "pastes") for one in item.all("code")]
    return list(dict.fromkeys(texts))


def test_each_command_of_the_page_does_what_it_says(
    servers: Servers, topic: Callable[..., str], journal_url: str, group: str, tmp_path: Path
) -> None:
    journal, of_all, folder = HandWritten(journal_url, group), topic(1), tmp_path / "page"
    digest = payload_sha256(None, b"{}")
    for name, state in ((DOUBT, JournalState.IN_DOUBT), (FAILED, JournalState.FAILED)):
        journal.add_request(name, topic=of_all, state=state.value, payload_sha256=digest)
    (tmp_path / "bin").mkdir()
    folder.mkdir()
    (folder / "resend.jsonl").write_text(resend_line(LOST, of_all, (None, b"{}", ())))
    given = {"ONCEWARD_KAFKA__GROUP": group, "ONCEWARD_JOURNAL__URL": journal.url}
    shell = Shell(servers.settings() | given, folder, tmp_path / "bin")
    commands = _commands()
    assert len(commands) >= 11
    for command in commands:
        if "--because ''" in command:
            code, said = shell.paste(command)
            assert (code, "say it in a few words" in said) == (2, True), said
            command = command.replace("--because ''", "--because 'the list of the bank'")
        code, said = shell.paste(command)
        # No handlers are named here, and the check says so.
        fine = (0, 1, 2) if command == "onceward-worker check" else (0, 1)
        assert code in fine and "Usage:" not in said, (command, said)
    assert [one.name for one in folder.iterdir()] == ["resend.jsonl"]
    settings = RedisSection(url=servers.redis)
    store = StatusStore(connect(settings), group, settings)
    states = [one.state for one in store.read_many([LOST, DOUBT])]
    store.close()
    assert states == [Told.PENDING, Told.SUCCEEDED]
