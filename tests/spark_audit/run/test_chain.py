"""Days one after the other: each offset is judged on one of them, whatever its time says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)

import spark_audit.run.audit
from feedback.clock import epoch_ms
from feedback.errors import ExitCode, SettingsError
from feedback.records.envelope import DEADLINE, REQUEST_ID
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.audit import AuditResult
from spark_audit.run.day_pruning import prune
from spark_audit.stage.snapshot import Snapshot
from spark_audit.stage.window import Window, window_of
from tests.kit.databases import migrated
from tests.spark_audit.run.scene import IDS, LOST, WINDOW, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = pytest.mark.timeout(300)
SQLITE_ONLY = pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)

NOON = BEGIN_MS + DAY_MS // 2
STRAYS = {"of-1970": 5, "of-2001": 1_000_000_000_000, "of-2099": 4_070_908_800_000}


def _today() -> Window:
    now_ms = epoch_ms()
    return window_of(f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%d}", now_ms=now_ms)


def _lose(scene: Scene, times: dict[str, int], *, partition: int = 0) -> None:
    """Send requests of which the journal knows nothing, though they were delivered."""
    producer = KafkaProducer(bootstrap_servers=scene.servers.kafka)
    for request_id, timestamp_ms in times.items():
        headers = [(REQUEST_ID, request_id.encode()), (DEADLINE, str(NOON).encode())]
        stored = producer.send(
            scene.topic, b"{}", headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        after = stored.get(timeout=60).offset + 1
    producer.close()
    scene.commit(scene.topic, after, partition=partition)


def _lost(scene: Scene, date: str) -> list[str]:
    return _named(scene, date, "lost")


def _named(scene: Scene, date: str, finding: str) -> list[str]:
    folder = DayPaths(scene.output, date).findings
    rows = scene.spark.read.parquet(str(folder)).where(f"kind = '{finding}'").collect()
    return sorted(row["request_id"] for row in rows)


def _day_with_strays(scene: Scene) -> AuditResult:
    """Audit the day, with strays of other years."""
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, scene.topic, any_time)])
    _lose(scene, STRAYS)
    return scene.audit()


def _today_after(scene: Scene) -> tuple[Window, AuditResult]:
    """Audit today, with what came to the day after its audit."""
    # Sent before midnight, and here after the freeze; and one of today.
    _lose(scene, {"late": NOON, "of-today": BEGIN_MS + DAY_MS})
    now_ms = epoch_ms()
    for offset in (4, 5):
        scene.journal.add_run(f"r-{offset}", topic=scene.topic, offset=offset, outcome="SUCCEEDED")
    scene.journal.change(
        f"UPDATE onceward_request SET generation = 2, claimed_at = {now_ms}, "
        f"finished_at = {now_ms} WHERE request_id = 'r-5'"
    )
    today = _today()
    return today, scene.audit(window=today, fail_on="ran_twice>0")


def _others_are_refused_by_name(scene: Scene, other: str, tmp_path: Path) -> None:
    """See that no other group, topics or journal go on with days of these, or judge one."""
    before = Snapshot.of(scene.output, DATE).manifest.read_bytes()
    settings = scene.settings()
    group = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"group": "another"})}
    )
    with pytest.raises(SettingsError, match=f"of group {scene.journal.group}, and .* is another"):
        scene.audit(group, _today())
    with pytest.raises(SettingsError, match=f"the topics {scene.topic}, and .* names {other}"):
        scene.audit(scene.settings(topics=(other,)))
    journal = f"sqlite:///{tmp_path}/other.db"
    migrated(journal)
    for window in (WINDOW, _today()):
        with pytest.raises(SettingsError, match="was read from the journal"):
            scene.audit(scene.settings(journal_url=journal), window)
    assert Snapshot.of(scene.output, DATE).manifest.read_bytes() == before
    assert not DayPaths(scene.output, DATE).summary.exists()


def test_what_no_day_would_come_for_and_what_ran_again_after_its_day_are_named_once(
    scene: Scene, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its day was read, and never judged: the next run does that before its own.
    with monkeypatch.context() as dying:
        dying.setattr(spark_audit.run.audit, "judge_day", _die)
        with pytest.raises(KeyboardInterrupt):
            _day_with_strays(scene)
    _others_are_refused_by_name(scene, topic(1), tmp_path)
    today, second = _today_after(scene)
    (first,) = second.before
    assert first.summary["date"] == DATE
    assert _lost(scene, DATE) == sorted([LOST, *STRAYS])
    assert second.exit_code is ExitCode.BAD_ANSWER
    assert _lost(scene, today.date) == ["late", "of-today"]
    # The history of the other one is from before: the day that judged it has seen that.
    assert _named(scene, today.date, "ran_twice") == ["r-5"]
    judged = [one.summary["offsets"]["judged"] for one in (first, second)]
    assert judged == [15, 2]
    # Prometheus sees both: the day that was judged late is told nowhere else.
    assert (
        f'finding="lost",group="{scene.journal.group}"}} 6.0'
        in DayPaths(scene.output, today.date).metrics.read_text()
    )


@pytest.mark.long
def test_days_with_strays_are_judged_again_as_they_were(scene: Scene) -> None:
    _day_with_strays(scene)
    today, second = _today_after(scene)
    again = scene.audit(window=today, fail_on="ran_twice>0", again=True)
    assert again.summary["counts"] == second.summary["counts"]
    again = scene.audit(again=True)
    assert _lost(scene, DATE) == sorted([LOST, *STRAYS])
    assert again.summary["offsets"]["judged"] == 15


# Each day more is a whole audit more.
@pytest.mark.long
@SQLITE_ONLY
def test_an_open_request_of_which_nothing_is_left_makes_the_next_day_incomplete(
    scene: Scene,
) -> None:
    scene.commit(scene.topic, len(IDS) - 1)
    scene.journal.change(f"DELETE FROM onceward_request WHERE request_id = '{IDS[-1]}'")
    assert scene.audit().summary["counts"]["pending"] == 1
    scene.commit(scene.topic, len(IDS))
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.delete_records({TopicPartition(scene.topic, 0): len(IDS)})
    outcome = scene.audit(window=_today())
    assert outcome.exit_code is ExitCode.NOT_AVAILABLE
    assert any("neither a record" in one for one in outcome.summary["unseen"])


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.long
@SQLITE_ONLY
def test_a_judged_day_that_was_read_again_and_not_judged_is_judged_by_the_next_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.audit()
    _lose(scene, {"late": NOON})
    with monkeypatch.context() as dying:
        dying.setattr(spark_audit.run.audit, "judge_day", _die)
        with pytest.raises(KeyboardInterrupt):
            scene.audit(again=True)
    today = _today()
    with alone(scene.output):
        assert prune(scene.output, before=today.date) == []
    outcome = scene.audit(window=today)
    assert [one.summary["date"] for one in outcome.before] == [DATE]
    assert _lost(scene, DATE) == sorted([LOST, "late"])
    assert scene.audit(window=today).before == ()


@pytest.mark.long
@SQLITE_ONLY
def test_partitions_that_were_added_and_a_topic_made_anew_are_judged_from_their_begin(
    scene: Scene,
) -> None:
    scene.audit()
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.create_partitions({scene.topic: NewPartitions(2)})
    _lose(scene, {"on-another": NOON}, partition=1)
    today = _today()
    assert not _unseen(scene.audit(window=today))
    assert _lost(scene, today.date) == ["on-another"]
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.delete_topics([scene.topic])
        _make(admin, scene.topic)
    # Its offsets are those of rows that were judged long since.
    _lose(scene, {"of-the-new-one": NOON})
    outcome = scene.audit(window=today, again=True)
    assert _lost(scene, today.date) == ["of-the-new-one"]
    assert any("made anew" in one for one in _unseen(outcome))
    assert outcome.exit_code is ExitCode.NOT_AVAILABLE
    assert outcome.summary["counts"]["findings"]["orphan"] == 0
    # What nobody could see then, nobody can see later.
    assert _unseen(scene.audit(window=today, again=True)) == _unseen(outcome)


def _make(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    admin.wait_for_topics([name])


def _unseen(outcome: AuditResult) -> list[str]:
    return list(outcome.summary["unseen"])


# Each day more is a whole audit more.
@pytest.mark.long
@SQLITE_ONLY
def test_what_retention_took_before_it_was_judged_is_told(scene: Scene) -> None:
    scene.audit()
    _lose(scene, {"gone": NOON, "left": NOON})
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.delete_records({TopicPartition(scene.topic, 0): 13})
    today = _today()
    summary = scene.audit(window=today).summary
    assert _lost(scene, today.date) == ["left"]
    (gap,) = summary["gaps"]
    assert (gap["finding"], gap["first_offset"], gap["records"]) == ("retention_gap", 12, 1)
    assert summary["offsets"]["gone"] == 1
