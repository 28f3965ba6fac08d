"""Commands to paste: a shell gives the id to the command as it is, and does nothing else."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.dlq.commands import cli as dlq
from consumer.ops.commands import cli as worker
from feedback.records.envelope import MAX_REQUEST_ID_LENGTH
from producer_client.commands.commands import cli as client
from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.say.paste import pastes_for_all, pastes_of
from spark_audit.say.resend_lines import ResendLines
from tests.spark_audit.say.samples import summary

OF_REQUESTS = (*REQUEST_FINDINGS, Finding.STATUS_DISAGREES)
GROUPS: dict[str, click.Group] = {
    "onceward-worker": worker,
    "onceward-client": client,
    "onceward-dlq": dlq,
}
IDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=MAX_REQUEST_ID_LENGTH
)
HOSTILE = [
    "$(touch$IFS/tmp/x)",
    "`id`",
    "'\"'\"",
    "!!",
    "--yes",
    "-h",
    "a;b&c|d>e<f#g*h?i~j\\",
    "~",
    "{a,b}",
]


def _in_a_shell(command: str) -> list[str]:
    """Return what a shell gives to a pasted command."""
    name, rest = command.split(" ", 1)
    assert name in GROUPS
    asked = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {rest}"], capture_output=True, text=True, check=True
    )
    return asked.stdout.split("\0")[:-1]


def _parsed(command: str) -> dict[str, Any]:
    """Return what a command takes its arguments for, by its own parser."""
    name, what, *rest = shlex.split(command)
    with GROUPS[name].commands[what].make_context(what, rest) as context:
        return context.params


def _ids(params: dict[str, Any]) -> list[str]:
    ids = params.get("request_ids") or [params["request_id"]]
    return list(ids)


@pytest.mark.parametrize("request_id", HOSTILE)
def test_a_shell_hands_the_id_over_as_it_is(request_id: str) -> None:
    for one in pastes_of(Finding.IN_DOUBT, request_id, run=1):
        given = _in_a_shell(one.command)
        assert given[-1] == request_id
        assert given == shlex.split(one.command)[1:]


@settings(max_examples=30, deadline=None)
@given(IDS)
def test_any_id_of_a_client_can_be_pasted(request_id: str) -> None:
    (one,) = pastes_of(Finding.LATE, request_id)
    assert _in_a_shell(one.command)[-1] == request_id


@pytest.mark.parametrize("text", ["a b", "a\nb", "a\0b", "\x1b[2J", "\u202e", "é", "", "a" * 129])
def test_what_is_no_id_is_in_no_command(text: str) -> None:
    assert not any(pastes_of(finding, text) for finding in OF_REQUESTS)


@pytest.mark.parametrize("request_id", [*HOSTILE, "order-7"])
@pytest.mark.parametrize("finding", OF_REQUESTS)
def test_the_commands_know_what_is_pasted(finding: Finding, request_id: str) -> None:
    pastes = pastes_of(finding, request_id)
    assert pastes
    for one in pastes:
        given_reason = one.command.replace("--because ''", "--because 'the list of the bank'")
        assert _ids(_parsed(given_reason)) == [request_id]


def test_what_decides_something_is_refused_before_somebody_says_why() -> None:
    deciding = [
        one.command
        for finding in OF_REQUESTS
        for one in pastes_of(finding, "a")
        if any(word in one.command for word in ("resolve", "discard", "redrive"))
    ]
    assert len(deciding) == 3
    for command in deciding:
        with pytest.raises(click.BadParameter, match="say it in a few words"):
            _parsed(command)


def test_what_ends_a_doubt_names_the_run_that_was_judged() -> None:
    pastes = pastes_of(Finding.IN_DOUBT, "order-7", run=3)
    resolves = [one.command for one in pastes if " resolve " in one.command]
    assert len(resolves) == 2
    for command in resolves:
        given_reason = command.replace("--because ''", "--because 'the list of the bank'")
        params = _parsed(given_reason)
        assert (params["run"], params["request_id"]) == (3, "order-7")
    # A row that an audit did not see has no run.
    without = [one.command for one in pastes_of(Finding.IN_DOUBT, "order-7")]
    assert not any("--run" in command for command in without)


def test_the_commands_for_all_are_known_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resend.jsonl").touch()
    found = summary(resend=ResendLines(1))
    commands = [one.command for finding in Finding for one in pastes_for_all(finding, found)]
    assert len(commands) > 5
    for command in commands:
        _parsed(command)


def test_nothing_is_sent_again_where_nothing_is_safe_to_send() -> None:
    assert pastes_for_all(Finding.LOST, summary()) == ()
