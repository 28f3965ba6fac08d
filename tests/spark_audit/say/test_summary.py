"""`summary.json`, and the line for a person."""

import json
from dataclasses import replace

from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.judge.status_check import Disagreement
from spark_audit.say.resend_lines import ResendLines
from spark_audit.say.summary import MOST_GAPS, as_text, summarise, summary_line
from spark_audit.stage.gaps import Gap
from tests.spark_audit.say.samples import figures, manifest, summary

GAP = Gap(Finding.RETENTION_GAP, "payments", 3, 2**31, 2**31 + 10, 10)
NAMES = (
    "version date group since until frozen_at frozen_at_ms since_ms until_ms verdict exit_code "
    "failed_on unseen counts offsets by_topic statuses_compared statuses by_hour latency top_codes "
    "top_workers gaps resent resend yesterday median_7d"
)


def test_a_summary_has_the_names_that_were_promised() -> None:
    found = json.loads(as_text(summary()))
    assert list(found) == NAMES.split()
    assert found["version"] == 1
    assert list(found["counts"]) == [
        "requests",
        "errors",
        "pending",
        "in_flight",
        "outside_window",
        "by_state",
        "records",
        "findings",
    ]
    assert list(found["counts"]["findings"]) == [one.value for one in Finding]


def test_times_are_written_in_utc() -> None:
    found = summary()
    assert (found["since"], found["until"]) == (
        "2026-11-20T00:00:00.000Z",
        "2026-11-21T00:00:00.000Z",
    )
    assert found["frozen_at"] == "2026-11-21T01:00:00.000Z"
    assert [hour["hour"] for hour in found["by_hour"]][:2] == [
        "2026-11-20T00:00:00.000Z",
        "2026-11-20T01:00:00.000Z",
    ]


def test_the_same_day_gives_the_same_bytes() -> None:
    ordered = figures()
    turned = replace(
        ordered,
        latencies=dict(sorted(ordered.latencies.items(), reverse=True)),
        findings=dict(ordered.findings),
    )
    conditions = parse_fail_on("lost>0")
    texts = {
        as_text(summarise(manifest(), some, conditions=conditions)) for some in (ordered, turned)
    }
    assert len(texts) == 1


def test_gaps_and_disagreements_count_as_findings() -> None:
    found = summary(gaps=[GAP], disagreements=[Disagreement("r", "FAILED", "SUCCEEDED")])
    counts = found["counts"]["findings"]
    assert (counts["retention_gap"], counts["offset_gap"], counts["status_disagrees"]) == (1, 0, 1)
    assert found["gaps"] == [
        {
            "finding": "retention_gap",
            "topic": "payments",
            "partition": 3,
            "first_offset": 2**31,
            "next_offset": 2**31 + 10,
            "records": 10,
        }
    ]


def test_of_very_many_gaps_the_first_are_named_and_all_are_counted() -> None:
    found = summary(gaps=[GAP] * (MOST_GAPS + 1))
    assert len(found["gaps"]) == MOST_GAPS
    assert found["counts"]["findings"]["retention_gap"] == MOST_GAPS + 1


def test_statuses_that_were_not_compared_are_not_called_fine() -> None:
    assert summary(disagreements=None)["statuses_compared"] is False
    assert summary()["statuses_compared"] is True


def test_a_bad_day_says_on_what_it_failed_and_how_it_ends() -> None:
    found = summary({Finding.LOST: 3}, fail_on="ran_twice>0,lost>0")
    assert (found["verdict"], found["exit_code"]) == ("bad", 1)
    assert found["failed_on"] == [{"rule": "lost>0", "finding": "lost", "count": 3}]


def test_what_was_not_seen_is_said() -> None:
    found = summary({Finding.LOST: 3}, unseen=["Redis is away"])
    assert (found["verdict"], found["exit_code"]) == ("incomplete", 3)
    assert found["unseen"] == ["Redis is away"]
    assert found["failed_on"]


def test_the_latencies_can_be_added_to_those_of_other_days() -> None:
    latency = summary()["latency"]
    assert latency["buckets"] == {"140": 98, "200": 2}
    assert (latency["buckets_per_octave"], latency["measured"]) == (8, 100)
    assert (latency["p50_ms"], latency["p99_ms"]) == (202.0, 36_600.0)


def test_what_may_be_sent_again_is_counted() -> None:
    assert summary(resend=ResendLines(3, 2, begun=0, not_text=1))["resend"] == {
        "ready": 3,
        "payload_gone": 2,
        "begun": 0,
        "not_text": 1,
        "withheld": 0,
    }


def test_it_says_how_many_were_resent_and_how_many_of_these_had_to_be() -> None:
    assert summary({Finding.RESENT: 5}, resends_needed=2)["resent"] == {"requests": 5, "needed": 2}


def test_a_good_day_is_one_line() -> None:
    assert summary_line(summary(requests=12_345)) == (
        "2026-11-20 payments: GOOD, 12,345 requests: "
        "0 lost, 0 ran twice, 0 in doubt; 0 pending, 0 in flight"
    )


def test_an_empty_day_says_so() -> None:
    assert summary_line(summary(requests=0)) == (
        "2026-11-20 payments: GOOD, no requests: "
        "0 lost, 0 ran twice, 0 in doubt; 0 pending, 0 in flight"
    )


def test_the_line_names_what_was_found_and_what_was_not_seen() -> None:
    said = summary_line(
        summary({Finding.LOST: 1_000, Finding.LATE: 2}, unseen=["Redis is away"], pending=5)
    )
    assert "INCOMPLETE" in said
    assert "1,000 lost, 0 ran twice, 0 in doubt, 2 late; 5 pending" in said
    assert said.endswith("; not seen: Redis is away")


def test_the_line_stays_one_line_whatever_it_has_to_say() -> None:
    said = summary_line(summary(unseen=["a\nb\x1b[2J\u202e"]))
    assert said.isprintable()
