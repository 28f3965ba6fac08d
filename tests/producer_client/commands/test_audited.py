"""Lines of an audit are sent only while the journal has not forgotten what they rest on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from feedback.errors import ExitCode, NotAvailable, SettingsError
from feedback.settings.settings import Settings
from producer_client.commands.audited import Audited, JournalMark
from producer_client.commands.jsonl import BadLine, read_submissions
from tests import preloaded
from tests.kit.settings import environment, write_settings
from tests.spark_audit.stage.journal import HandWritten
from tests.stack import Servers

READ_AT = 2**41
LINE = {"request_id": "r1", "topic": "pay", "value": {}}


def settings_of(journal: HandWritten, *, group: str = "") -> Settings:
    return Settings.model_validate(
        {"kafka": {"group": group or journal.group}, "journal": {"url": journal.url}}
    )


def audited_of(journal: HandWritten, *, read_at: int = READ_AT) -> Audited:
    with journal.engine.begin() as connection:
        found = connection.exec_driver_sql(
            "SELECT value FROM onceward_meta WHERE name = 'journal_id'"
        )
        return Audited(journal.group, str(found.scalar()), read_at)


def forget(journal: HandWritten, deadline_at: int, *, topic: str = "pay") -> None:
    journal.change(
        'INSERT INTO onceward_forgotten ("group", topic, "partition", next_offset, deadline_at, '
        f"pruned_at) VALUES ('{journal.group}', '{topic}', 3, 7, {deadline_at}, 1)"
    )


@pytest.fixture(autouse=True)
def own_settings(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment not win over what a test asks for."""
    for name in servers.settings():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def journal(journal_url: str, group: str) -> HandWritten:
    """Return a journal that a test writes."""
    return HandWritten(journal_url, group)


def test_a_line_may_be_sent_until_pruning_has_passed_the_time_of_its_audit(
    journal: HandWritten,
) -> None:
    one = audited_of(journal)
    JournalMark(settings_of(journal)).check(one, "pay")
    # On another topic; and here of a time before the journal was read.
    forget(journal, READ_AT, topic="other")
    forget(journal, READ_AT - 1)
    JournalMark(settings_of(journal)).check(one, "pay")
    with pytest.raises(SettingsError, match=r"its audit is too old: .* have been pruned"):
        JournalMark(settings_of(journal)).check(one._replace(read_at=READ_AT - 1), "pay")


def test_a_line_of_another_group_or_journal_is_refused(journal: HandWritten) -> None:
    one = audited_of(journal)
    with pytest.raises(SettingsError, match=r"and \[kafka\] group is another"):
        JournalMark(settings_of(journal, group="another")).check(one, "pay")
    with pytest.raises(SettingsError, match="of the journal elsewhere"):
        JournalMark(settings_of(journal)).check(one._replace(journal="elsewhere"), "pay")


def test_without_the_journal_no_line_of_an_audit_is_sent_and_none_is_made(tmp_path: Path) -> None:
    file = tmp_path / "none.db"
    settings = Settings.model_validate({"journal": {"url": f"sqlite:///{file}"}})
    one = Audited(settings.kafka.group, "id", READ_AT)
    with pytest.raises(NotAvailable, match="only the journal knows"):
        JournalMark(settings).check(one, "pay")
    assert not file.exists()


@pytest.mark.parametrize("audit", [None, 1, {}, {"group": "g", "journal": "j", "read_at": "1"}])
def test_what_no_audit_writes_is_a_bad_line(audit: object) -> None:
    line = json.dumps(LINE | {"audit": audit}).encode()
    with pytest.raises(BadLine, match="line 1: audit must have group, journal and read_at"):
        list(read_submissions([line], check=lambda *_: None))


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_the_command_sends_none_of_an_old_file(
    journal: HandWritten, servers: Servers, tmp_path: Path
) -> None:
    old = audited_of(journal)
    forget(journal, READ_AT)
    (tmp_path / "resend.jsonl").write_text(json.dumps(LINE | {"audit": old._asdict()}) + "\n")
    config = write_settings(
        tmp_path,
        {
            "kafka": {"bootstrap_servers": servers.kafka, "group": journal.group},
            "redis": {"url": servers.redis},
            "journal": {"url": journal.url},
        },
    )
    ended = preloaded.run(
        (
            *(sys.executable, "-m", "producer_client", "send", "--config"),
            *(str(config), "--file", str(tmp_path / "resend.jsonl")),
        ),
        environ=environment(),
        timeout_s=60,
    )
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    assert "error: line 1: its audit is too old" in ended.stderr
    assert "nothing to send" in ended.stderr
