"""`onceward-client relay`, and `onceward-client outbox migrate · list · retry`.

SQLAlchemy and its users are imported where they are used: a send would wait for them as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from feedback import __version__, logs
from feedback.console.commands import (
    OF_A_GROUP,
    Group,
    config_option,
    json_option,
    log_level_option,
    settings_of,
)
from feedback.console.contradictions import refuse_beside
from feedback.console.printable import printable
from feedback.console.source import say_source
from feedback.errors import ExitCode, SettingsError
from feedback.records.envelope import check_request_id
from feedback.rights.needed import Role
from feedback.settings.settings import Settings
from producer_client.commands.service import STALLED_S, serve

if TYPE_CHECKING:
    from producer_client.outbox.metrics import ExposedRelayMetrics
    from producer_client.outbox.parked import OutboxDesk, ShownRow
    from producer_client.outbox.relay import Relay


@click.command()
@config_option
@log_level_option
def relay(config: str | None, log_level: str) -> int:
    """Send the requests that wait in the outbox, until SIGTERM or Ctrl-C.

    Run at least one for a group that has an outbox; several share the work.

    \b
    Example:
      onceward-client relay --config payments.toml
    """
    from feedback.console.access import require_access
    from feedback.rights.looking import require_sending_rights
    from producer_client.outbox.metrics import ExposedRelayMetrics
    from producer_client.outbox.relay import Relay

    settings = _settings(config)
    logs.configure(level=log_level)
    require_access(settings)
    require_sending_rights(Role.RELAY, settings)
    if not settings.outbox.http_port:
        return int(serve(Relay(settings)))
    metrics = ExposedRelayMetrics()
    one = Relay(settings, metrics=metrics)
    with _served(one, metrics, settings):
        return int(serve(one))


@contextmanager
def _served(one: Relay, metrics: ExposedRelayMetrics, settings: Settings) -> Iterator[None]:
    from feedback.web.page_server import PageServer
    from producer_client.outbox.metrics import pages

    section = settings.outbox
    shown = pages(one, metrics, stalled_s=STALLED_S)
    server = PageServer(
        host=section.http_host, port=section.http_port, pages=shown, section="outbox"
    )
    with closing(server):
        yield


@click.group(cls=Group)
@click.version_option(__version__)
def outbox() -> None:
    """Looks after the outbox: its tables, and its parked requests."""


@outbox.command()
@config_option
def migrate(config: str | None) -> int:
    """Make the outbox' tables, or bring them up to date.

    \b
    Example:
      onceward-client outbox migrate --config payments.toml
    """
    from producer_client.outbox.schema import migrate as migrate_outbox

    done = migrate_outbox(_settings(config).outbox.url)
    found = "no outbox" if done.found is None else f"version {done.found}"
    click.echo(f"found {found}; the outbox has version {done.version}")
    return int(ExitCode.FINE)


@outbox.command(name="list")
@config_option
@json_option
@click.option("--waiting", is_flag=True, help="List requests that wait to be sent.")
@click.option("--sent", is_flag=True, help="What Kafka has.")
@click.option("--parked", is_flag=True, help="The default.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
def list_rows(
    config: str | None, as_json: bool, waiting: bool, sent: bool, parked: bool, limit: int
) -> int:
    """List requests that Kafka refused, with the reason, oldest first; no payloads.

    \b
    Examples:
      onceward-client outbox list --config payments.toml
      onceward-client outbox list --waiting --json
    """
    from producer_client.outbox.tables import RowState

    refuse_beside("--parked", "--waiting", "--sent")
    refuse_beside("--waiting", "--sent")
    state = RowState.WAITING if waiting else RowState.SENT if sent else RowState.PARKED
    with closing(_desk(config)) as desk:
        found = list(desk.rows(state, limit=limit))
    say_source(_settings(config), as_json=as_json, section="outbox")
    for one in found:
        click.echo(json.dumps(one._asdict()) if as_json else printable(_line(one)))
    if not (found or as_json):
        click.echo(f"no request is {state}", err=True)
    return int(ExitCode.FINE)


@outbox.command()
@config_option
@click.argument("request_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All parked requests.")
def retry(config: str | None, request_ids: tuple[str, ...], everything: bool) -> int:
    """Let parked requests be sent again, when their cause is gone.

    \b
    Examples:
      onceward-client outbox retry 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11
      onceward-client outbox retry --all
    """
    if bool(request_ids) == everything:
        raise click.UsageError("name requests, or say --all")
    wanted = [check_request_id(one) for one in request_ids]
    with closing(_desk(config)) as desk:
        count = desk.retry(wanted)
    click.echo(f"{count} wait again")
    return int(ExitCode.FINE if count or everything else ExitCode.BAD_ANSWER)


def _line(one: ShownRow) -> str:
    where = "" if one.offset is None else f"{one.partition}-{one.offset}"
    return "  ".join([one.request_id, one.state, one.topic, where or one.reason or ""]).rstrip()


def _desk(config: str | None) -> OutboxDesk:
    from producer_client.outbox.parked import OutboxDesk

    settings = _settings(config)
    section = settings.outbox
    return OutboxDesk(section.url, group=settings.kafka.group, timeout_s=section.timeout_s)


def _settings(config: str | None) -> Settings:
    settings = settings_of(config, needs=OF_A_GROUP)
    if not settings.outbox.url:
        raise SettingsError("this needs an outbox, and [outbox] url is empty")
    return settings
