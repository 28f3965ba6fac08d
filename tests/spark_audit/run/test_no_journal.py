"""A journal that is not there, or is not what it should be: told, and mended by the next run."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from consumer.journal.tables import SCHEMA_VERSION
from feedback.errors import ExitCode, NotAvailable
from feedback.settings.settings import Settings
from spark_audit.stage.jdbc import VERSION
from tests.spark_audit.run.scene import Scene

# Beside the limit of one test: six runs, of which two make some fifty queries.
pytestmark = pytest.mark.timeout(300)

Act = Callable[[Scene], None]


def _change(*statements: str) -> Act:
    def act(scene: Scene) -> None:
        for one in statements:
            scene.journal.change(one)

    return act


def _refused(scene: Scene, settings: Settings | None = None) -> str:
    """Return the one sentence with which an audit ends that left nothing."""
    with pytest.raises(NotAvailable) as raised:
        scene.audit(settings)
    text = str(raised.value)
    assert raised.value.exit_code is ExitCode.NOT_AVAILABLE
    assert "\n" not in text
    assert scene.has_no_end()
    return text


# What is done to a journal, what is told of it, and what mends it.
FAULTS: tuple[tuple[Act, str, Act], ...] = (
    (
        _change("ALTER TABLE onceward_meta RENAME TO kept"),
        "has no tables yet: run `onceward-worker migrate`",
        _change("ALTER TABLE kept RENAME TO onceward_meta"),
    ),
    (
        _change("DELETE FROM onceward_meta WHERE name = 'schema_version'"),
        "has no version yet: run `onceward-worker migrate`",
        _change(f"INSERT INTO onceward_meta (name, value) VALUES ('schema_version', '{VERSION}')"),
    ),
    (
        _change("UPDATE onceward_meta SET value = '7' WHERE name = 'schema_version'"),
        f"is of version 7, and this audit reads {VERSION}",
        _change(f"UPDATE onceward_meta SET value = '{VERSION}' WHERE name = 'schema_version'"),
    ),
    (
        _change("DELETE FROM onceward_request"),
        "although its records were read: is [journal] url the workers' own?",
        Scene.fill_journal,
    ),
)
# All is well until the history is read, after the records and the rows: then it ends the reader's
# own connection.
CUT_OFF = (
    _change(
        "ALTER TABLE onceward_run RENAME TO kept",
        "CREATE VIEW onceward_run AS "
        "SELECT * FROM kept WHERE pg_terminate_backend(pg_backend_pid())",
    ),
    "connection",
    _change("DROP VIEW onceward_run", "ALTER TABLE kept RENAME TO onceward_run"),
)


def test_a_journal_that_is_not_as_it_should_be_is_told_and_the_run_after_goes_right(
    scene: Scene,
) -> None:
    elsewhere = scene.settings(journal_url=f"{scene.journal.url}-elsewhere")
    told = _refused(scene, elsewhere)
    assert re.search(r"-elsewhere\S* (cannot be read: .*)?does not exist", told)
    scene.journal.add_run("r-5", topic=scene.topic)
    faults = (*FAULTS, CUT_OFF) if scene.journal.url.startswith("postgresql") else FAULTS
    for spoil, why, mend in faults:
        spoil(scene)
        assert why in _refused(scene)
        mend(scene)
    scene.audit_goes_right()


def test_the_version_that_is_read_is_the_one_that_workers_write() -> None:
    assert str(SCHEMA_VERSION) == VERSION
