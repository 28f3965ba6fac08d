"""The text file for Prometheus."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from feedback.errors import NotAvailable
from spark_audit.findings import Finding
from spark_audit.say.prometheus_file import LAST_SUCCESS, last_success_s, write_metrics
from spark_audit.say.summary import Summary
from tests.spark_audit.say.samples import summary


def _samples(path: Path) -> list[Sample]:
    families = text_string_to_metric_families(path.read_text())
    return [sample for family in families for sample in family.samples]


def _write(path: Path, *days: Summary, ended_at_s: float | None = 1_000.0) -> dict[str, float]:
    write_metrics(path, days, seconds=12.5, succeeded_at_s=ended_at_s)
    return {_short(one): one.value for one in _samples(path)}


def _short(one: Sample) -> str:
    return one.name + one.labels.get("finding", "") + one.labels.get("verdict", "")


def test_the_file_has_the_counts_and_the_time_of_the_success(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "onceward_audit.prom"
    found = _write(path, summary({Finding.LOST: 3}, pending=4, in_flight=5))
    expected = {f"onceward_audit_findings{one.value}": 0.0 for one in Finding}
    expected |= {
        "onceward_audit_findingslost": 3,
        "onceward_audit_verdictgood": 0,
        "onceward_audit_verdictbad": 1,
        "onceward_audit_verdictincomplete": 0,
        "onceward_audit_requests": 100,
        "onceward_audit_pending": 4,
        "onceward_audit_in_flight": 5,
        "onceward_audit_seconds": 12.5,
        LAST_SUCCESS: 1_000,
    }
    assert found == expected
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_run_that_judged_two_days_hides_neither(tmp_path: Path) -> None:
    yesterday = summary({Finding.LOST: 3}, pending=4)
    found = _write(tmp_path / "a.prom", yesterday, summary({Finding.IN_DOUBT: 1}, pending=1))
    names = {"findingslost": 3, "findingsin_doubt": 1, "requests": 200, "pending": 1}
    names |= {"verdictgood": 0, "verdictbad": 1, "verdictincomplete": 0}
    assert {name: found[f"onceward_audit_{name}"] for name in names} == names


def test_a_day_that_was_not_seen_whole_is_no_success_of_its_run(tmp_path: Path) -> None:
    found = _write(tmp_path / "a.prom", summary(unseen=["Redis is away"]), summary())
    assert LAST_SUCCESS not in found
    assert found["onceward_audit_verdictincomplete"] == 1
    assert found["onceward_audit_verdictgood"] == 0


def test_a_run_that_has_not_judged_its_own_day_yet_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    assert LAST_SUCCESS not in _write(path, summary(), ended_at_s=None)
    _write(path, summary())
    assert _write(path, summary(), ended_at_s=None)[LAST_SUCCESS] == 1_000.0


def test_every_metric_names_its_group(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    _write(path, summary(group='pay"ments'))
    assert {one.labels["group"] for one in _samples(path)} == {'pay"ments'}


def test_the_success_of_another_group_is_none_of_this(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    _write(path, summary(group="other"))
    assert (last_success_s(path, "other"), last_success_s(path, "payments")) == (1_000.0, None)
    assert LAST_SUCCESS not in _write(path, summary(unseen=["Redis is away"]))


def test_an_audit_that_did_not_see_everything_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    unseen = summary(unseen=["Redis is away"])
    assert LAST_SUCCESS not in _write(path, unseen, ended_at_s=900.0)
    assert _write(path, summary())[LAST_SUCCESS] == 1_000.0
    assert _write(path, unseen, ended_at_s=2_000.0)[LAST_SUCCESS] == 1_000.0


def test_a_bad_day_that_was_seen_whole_is_a_success(tmp_path: Path) -> None:
    assert _write(tmp_path / "a.prom", summary({Finding.LOST: 1}))[LAST_SUCCESS] == 1_000.0


def test_a_file_that_is_none_of_ours_tells_no_success(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    assert last_success_s(path, "payments") is None
    path.write_text(f'{LAST_SUCCESS}{{group="payments"}} soon\n')
    assert last_success_s(path, "payments") is None


def test_a_place_where_nothing_can_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotAvailable, match="cannot be written"):
        write_metrics(tmp_path / "file" / "a.prom", [summary()], seconds=1, succeeded_at_s=1)
