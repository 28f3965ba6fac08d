"""What is posted: texts that can do nothing in a chat, and the same for programs."""

import html
import json
import shlex
from typing import Any

import pytest

from consumer.features.alerts.grouping import AlertKind
from consumer.features.alerts.message import (
    DETAIL_LIMIT,
    TEXT_LIMIT,
    AlertSender,
    alert_body,
    alert_text,
    command_of,
)
from tests.consumer.features.alerts.samples import NOW_MS, SENDER, alert


def test_a_first_failure_is_told_with_an_example_and_the_command_that_shows_it() -> None:
    one = alert(count=9, codes={"CARD_EXPIRED": 9}, request_ids=["a", "b"], detail="it expired")
    assert alert_text(one, SENDER) == (
        "*payments* (group shop): a failure not seen for a day: `CARD_EXPIRED` (9)\n"
        "`a`: `it expired`\n"
        "`onceward-dlq list --topic payments --code CARD_EXPIRED --config payments.toml`"
    )


@pytest.mark.parametrize(
    ("kind", "facts", "told"),
    [
        (
            AlertKind.RATE,
            {"level": 1234.0, "codes": {"A": 2, "B": 5}},
            "1,234 dead letters within a",
        ),
        (AlertKind.RATE, {"codes": {"A": 2, "B": 5}}, "`B` (5), `A` (2)"),
        (AlertKind.RATE, {"codes": {f"C{n}": 1 for n in range(8)}}, "and 3 more"),
        (
            AlertKind.AGE,
            {"count": 1, "level": 65.0},
            "1 failure waits for a dead letter, the oldest ",
        ),
        (
            AlertKind.AGE,
            {"count": 7, "level": 900.0},
            "7 failures wait for a dead letter, the oldest f",
        ),
        (AlertKind.AGE, {"count": 7, "level": 900.0}, "for 15 min"),
        (AlertKind.HINDERED, {"detail": "topic x does not exist"}, "none is lost"),
        (AlertKind.HINDERED, {"detail": "topic x does not exist"}, "`topic x does not exist`"),
        (AlertKind.PAUSED, {"by": "ann@desk", "detail": "9 of 10 failed"}, "paused by `ann@desk`"),
        (AlertKind.PAUSED, {"detail": "9 of 10 failed"}, ": paused\n`9 of 10 failed`"),
    ],
)
def test_each_kind_says_what_is_the_matter(
    kind: AlertKind, facts: dict[str, Any], told: str
) -> None:
    assert told in alert_text(alert(kind, **facts), SENDER)


@pytest.mark.parametrize(
    ("kind", "facts", "command"),
    [
        (AlertKind.FIRST, {"codes": {"A": 1, "B": 1}}, "onceward-dlq list --topic payments"),
        (AlertKind.RATE, {"codes": {"A": 1}}, "onceward-dlq list --topic payments --code A"),
        (AlertKind.RATE, {"topic": "payments.shop.dlq"}, "onceward-dlq list --topic payments"),
        (AlertKind.PAUSED, {}, "onceward-worker paused"),
        (AlertKind.AGE, {}, "onceward-worker check"),
        (AlertKind.HINDERED, {}, "onceward-worker check"),
    ],
)
def test_each_kind_has_its_command(kind: AlertKind, facts: dict[str, Any], command: str) -> None:
    one = alert(kind, **facts)
    assert command_of(one, SENDER._replace(config=None)) == command
    path = "/etc/it's here/p.toml"
    given = shlex.split(command_of(one, SENDER._replace(config=path)))
    assert given == [*command.split(), "--config", path]


def test_programs_get_the_same_by_name() -> None:
    one = alert(
        AlertKind.RATE, count=90, codes={"A": 90}, request_ids=["a"], detail="x", level=88.0
    )
    body = json.loads(json.dumps(alert_body([one, alert(AlertKind.AGE, level=61.4)], SENDER)))
    assert set(body) == {"text", "onceward"}
    assert body["text"].count("*payments*") == 2
    said = body["onceward"]
    assert (said["version"], said["group"], said["worker_id"]) == (1, "shop", "host-1-abc")
    rate, age = said["alerts"]
    assert rate == {
        "kind": "rate",
        "topic": "payments",
        "count": 90,
        "codes": {"A": 90},
        "request_ids": ["a"],
        "detail": "x",
        "by": "",
        "first_at": NOW_MS,
        "last_at": NOW_MS + 5,
        "command": "onceward-dlq list --topic payments --code A --config payments.toml",
        "per_minute": 88,
    }
    assert age["oldest_s"] == 61


HOSTILE = [
    "<!channel> <@U1> <http://evil|here> & co",
    "a`b`` *bold*\nnew line\r\x1b[31m\u202eleft\u2028\ud800",
    "x" * 100_000,
    "&" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_comes_from_outside_names_nobody_points_nowhere_and_stays_on_its_line(
    text: str,
) -> None:
    one = alert(codes={text: 1}, request_ids=[text], detail=text, by=text)
    for kind in AlertKind:
        one.kind = kind
        told = alert_text(one, SENDER)
        assert "<" not in told and ">" not in told
        assert told.isprintable() or told.replace("\n", "").isprintable()
        assert len(told.splitlines()) == 3
        assert all(line.count("`") % 2 == 0 for line in told.splitlines())
        # As a chat shows it.
        assert len(html.unescape(told)) < 8 * DETAIL_LIMIT
        assert len(command_of(one, SENDER)) < 3 * DETAIL_LIMIT
        json.dumps(alert_body([one], SENDER)).encode()


def test_many_alerts_are_not_longer_than_a_chat_takes() -> None:
    many = [alert(detail="x" * 300, codes={"A": 1}) for _ in range(100)]
    assert len(alert_body(many, SENDER)["text"]) == TEXT_LIMIT


def test_a_group_without_a_settings_file_has_commands_without_one() -> None:
    assert "--config" not in alert_text(alert(), AlertSender("shop", "w"))
