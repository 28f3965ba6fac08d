"""Each alert rule fires on its fault, and none when all is well: rule tests of Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.config.monitoring import RULES, objections

# Values in Prometheus' notation: one a minute. What is allowed stands close to each limit.
WELL = {
    'onceward_slots{instance="a"}': "8x60",
    'onceward_stalled{instance="a"}': "0x60",
    'onceward_server_up{server="redis"}': "1x60",
    'onceward_partitions{instance="a"}': "4x60",
    'onceward_doubts_oldest_seconds{topic="pay"}': "890x60",
    'onceward_consumer_lag_records{topic="pay",instance="a"}': "990x60",
    'onceward_consumer_lag_records{topic="mail",instance="a"}': "0x20 5000x3 0x60",
    'onceward_topic_paused_seconds{topic="pay",by="guard"}': "590x60",
    'onceward_dead_letters_oldest_seconds{topic="pay"}': "290x60",
    'onceward_children_replaced_total{reason="memory",instance="a"}': "0+10x60",
    'onceward_children_replaced_total{reason="died",instance="a"}': "0x20 4x60",
    'onceward_journal_call_seconds_bucket{operation="claim",le="1"}': "0+10x60",
    'onceward_journal_call_seconds_bucket{operation="claim",le="2"}': "0+10x60",
    'onceward_journal_call_seconds_bucket{operation="claim",le="+Inf"}': "0+10x60",
    'onceward_outbox_oldest_seconds{job="pay"}': "290x60",
    'onceward_outbox_parked_rows{job="pay"}': "0x60",
    'onceward_audit_verdict{group="pay",verdict="good"}': "1x60",
    'onceward_audit_verdict{group="pay",verdict="bad"}': "0x60",
    'onceward_audit_verdict{group="pay",verdict="incomplete"}': "0x60",
    'onceward_audit_last_success_timestamp_seconds{group="pay"}': "-126000x60",
}
# The series that make each alert fire, in place of those above; "_" is none.
FAULTS: dict[str, dict[str, str]] = {
    "OncewardWorkerAway": {'onceward_slots{instance="a"}': "8x10 _x50"},
    "OncewardWorkerStalled": {'onceward_stalled{instance="a"}': "1x60"},
    "OncewardServerAway": {'onceward_server_up{server="redis"}': "0x60"},
    "OncewardDoubtsOpen": {'onceward_doubts_oldest_seconds{topic="pay"}': "960x60"},
    "OncewardLagGrows": {'onceward_consumer_lag_records{topic="pay",instance="a"}': "1010x60"},
    "OncewardLagUnknown": {
        'onceward_consumer_lag_records{topic="pay",instance="a"}': "_x60",
        'onceward_consumer_lag_records{topic="mail",instance="a"}': "_x60",
    },
    "OncewardTopicPaused": {'onceward_topic_paused_seconds{topic="pay",by="guard"}': "610x60"},
    "OncewardDeadLettersWait": {'onceward_dead_letters_oldest_seconds{topic="pay"}': "310x60"},
    "OncewardChildrenDie": {
        'onceward_children_replaced_total{reason="died",instance="a"}': "0x20 7x60"
    },
    "OncewardJournalSlow": {
        'onceward_journal_call_seconds_bucket{operation="claim",le="1"}': "0+9x60"
    },
    "OncewardOutboxWaits": {'onceward_outbox_oldest_seconds{job="pay"}': "310x60"},
    "OncewardOutboxParked": {'onceward_outbox_parked_rows{job="pay"}': "1x60"},
    "OncewardAuditBad": {'onceward_audit_verdict{group="pay",verdict="bad"}': "1x60"},
    "OncewardAuditIncomplete": {'onceward_audit_verdict{group="pay",verdict="incomplete"}': "1x60"},
    "OncewardAuditAway": {
        'onceward_audit_last_success_timestamp_seconds{group="pay"}': "-129000x60"
    },
}
AT = "30m"
DOUBT = {
    "exp_labels": {"severity": "page", "topic": "pay"},
    "exp_annotations": {
        "summary": "A request of pay has been in doubt for 16m 0s.",
        "runbook": "docs/how-to/troubleshooting.md#alert-doubts-open",
    },
}


def test_each_rule_fires_on_its_fault_alone_and_none_when_all_is_well(tmp_path: Path) -> None:
    scenes = [_scene(name, WELL | series, [name]) for name, series in FAULTS.items()]
    scenes.append(_scene("all is well", WELL, []))
    doubt = {"eval_time": AT, "alertname": "OncewardDoubtsOpen", "exp_alerts": [DOUBT]}
    scenes[list(FAULTS).index("OncewardDoubtsOpen")]["alert_rule_test"] = [doubt]
    assert _tested(scenes, tmp_path) == ""


def test_a_rule_that_does_not_fire_is_found(tmp_path: Path) -> None:
    silent = _scene("silent", WELL, ["OncewardOutboxParked"])
    assert "OncewardOutboxParked" in _tested([silent], tmp_path)


def test_each_rule_has_a_fault_a_severity_and_words() -> None:
    rules = re.split(r"\n +- alert: ", RULES.read_text())[1:]
    assert [one.partition("\n")[0] for one in rules] == list(FAULTS)
    for one in rules:
        assert re.search(r"labels: \{severity: (page|ticket)\}", one), one
        assert re.search(r"summary: .+\n +runbook: .+", one), one


def _scene(name: str, series: Mapping[str, str], firing: list[str]) -> dict[str, Any]:
    samples = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in firing]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": AT,
                "exp_samples": samples,
            }
        ],
    }


def _tested(scenes: list[dict[str, Any]], folder: Path) -> str:
    """Return what promtool objects to; nothing when each scene is as it should be."""
    path = folder / "scenes.yml"  # JSON is YAML
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": scenes}))
    return objections("test", "rules", str(path))
