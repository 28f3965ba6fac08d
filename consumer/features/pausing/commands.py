"""`onceward-worker` pause, resume, paused: a person stops and starts topics of the whole group."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import click

from consumer.journal.pauses import PauseRow, Pauses
from feedback.console.commands import config_option, json_option, settings_of, user_name
from feedback.console.printable import printable
from feedback.console.source import say_source
from feedback.errors import ExitCode, KafkaUnavailable, SettingsError
from feedback.kafka.topics import KafkaTopics
from feedback.settings.settings import Settings

CommandFunction = Callable[..., Any]


def _by_option(command: CommandFunction) -> CommandFunction:
    return click.option("--by", default=None, help="Who does it; default: user@host.")(command)


def _refuse_reason(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError("--reason is a filter of onceward-dlq: say --because")


@click.command()
@click.argument("topic")
@click.option("--because", required=True, help="Why; other people read it.")
@click.option("--reason", hidden=True, expose_value=False, is_eager=True, callback=_refuse_reason)
@_by_option
@config_option
def pause(topic: str, because: str, by: str | None, config: str | None) -> None:
    """Let no worker of the group run requests of TOPIC, until it is resumed.

    Workers know within about a second. Running requests finish; the others stay in Kafka, and show
    PENDING or LOST meanwhile. Where TOPIC is paused already, the first reason stands.

    \b
    Example:
      onceward-worker pause payments --because "the bank is being migrated" --config payments.toml
    """
    settings = settings_of(config)
    _require_topic(settings, topic)
    with closing(Pauses.from_settings(settings)) as pauses:
        is_new = pauses.pause(topic, reason=because, by=by or _me())
    say_source(settings)
    click.echo(f"{topic} {'is paused' if is_new else 'was paused already'}")


@click.command()
@click.argument("topic")
@click.option("--since", type=int, help="Only the pause of this time, as `paused --json` has it.")
@_by_option
@config_option
def resume(topic: str, since: int | None, by: str | None, config: str | None) -> int:
    """Let requests of TOPIC run again. Ends with 1 when the group has not paused it.

    A topic that a worker's guard has paused because of an outage goes on by itself, as soon as a
    request succeeds.

    \b
    Example:
      onceward-worker resume payments --config payments.toml
    """
    settings = settings_of(config)
    with closing(Pauses.from_settings(settings)) as pauses:
        ended = pauses.resume(topic, by=by or _me(), since=since)
        stands = pauses.paused() if ended is None and since is not None else []
    say_source(settings)
    if ended is None:
        others = [_since(one) for one in stands if one.topic == topic]
        said = "was not paused" if not others else f"is paused anew, {others[0]}"
        click.echo(f"{topic} {said}", err=True)
        return ExitCode.BAD_ANSWER
    click.echo(f"{topic} goes on; it was paused {_since(ended)}")
    return ExitCode.FINE


@click.command()
@json_option
@config_option
def paused(as_json: bool, config: str | None) -> None:
    """Name the topics that are paused for the group: since when, by whom and why.

    A topic that only one worker's guard has paused is shown on that worker's page /ready, in its
    metrics and its log.

    \b
    Example:
      onceward-worker paused --json --config payments.toml
    """
    settings = settings_of(config)
    with closing(Pauses.from_settings(settings)) as pauses:
        found = pauses.paused()
    say_source(settings, as_json=as_json)
    for one in found:
        click.echo(json.dumps(one._asdict()) if as_json else f"{one.topic}  {_since(one)}")
    if not (found or as_json):
        click.echo("no topic is paused")


COMMANDS = (pause, resume, paused)


def _require_topic(settings: Settings, topic: str) -> None:
    """Return when the topic exists, or when that is not known: a pause must not wait for Kafka.

    Raises:
        SettingsError: it does not, so that a misspelt name stops nothing in silence.
    """
    try:
        missing = KafkaTopics(settings.kafka, create=False).missing([topic])
    except KafkaUnavailable as error:
        click.echo(f"whether {printable(topic)} exists is not known: {error}", err=True)
        return
    if missing:
        raise SettingsError(f"Kafka has no topic {topic}: correct the name")


def _since(one: PauseRow) -> str:
    at = datetime.fromtimestamp(one.since / 1000, UTC).isoformat(timespec="seconds")
    return f"since {at} by {printable(one.by)}: {printable(one.reason)}"


def _me() -> str:
    return f"{user_name()}@{socket.gethostname()}"
