"""`onceward-worker`: run, check, topics, migrate, prune, pause, resume, paused, workers, rights."""

from __future__ import annotations

import json

import click

from consumer.features.dead_letters.strategies import lettered_of
from consumer.features.pausing.commands import COMMANDS as PAUSING
from consumer.journal import Journal, migrate
from consumer.ops.check import check_all
from consumer.ops.check_result import CheckResult
from consumer.ops.needed_topics import look_at_topics, topic_as_json, topic_as_text
from consumer.ops.rights.checking import look_at_rights
from consumer.ops.rights.command import rights
from consumer.ops.rights.kafka_rights import rights_by_topic
from consumer.ops.startup import load_registry
from consumer.ops.workers.command import workers
from feedback import __version__, logs
from feedback.console.commands import (
    OF_A_GROUP,
    Group,
    config_option,
    json_option,
    log_level_option,
    settings_of,
)
from feedback.console.plurals import counted
from feedback.errors import ExitCode, more
from feedback.rights.needed import Role
from feedback.settings.settings import Settings

PRUNE_BATCH = 1000

log = logs.EventLog("onceward.topics")


@click.group(cls=Group)
@click.version_option(__version__)
def cli() -> None:
    """Runs requests from Kafka that must not run twice."""


@cli.command()
@config_option
@log_level_option
@click.option("--create-topics", is_flag=True, help="First make the topics that are missing.")
def run(config: str | None, log_level: str, create_topics: bool) -> int:
    """Work until SIGTERM or Ctrl-C.

    SIGUSR1 makes the logs one level more detailed, SIGUSR2 one level less, in all its processes.

    \b
    Example:
      onceward-worker migrate --config payments.toml
      onceward-worker run --config payments.toml
    """
    from consumer.ops.log_level import LogLevelSignals

    levels = LogLevelSignals()
    # First of all: until somebody listens, such a signal ends the process.
    with levels.listening():
        from consumer.ops.service import Service

        settings = settings_of(config)
        logs.configure(level=log_level)
        if create_topics:
            _create_topics(settings)
        return Service(settings, levels).run()


@cli.command()
@config_option
@json_option
@click.option("--role", type=click.Choice([*map(str, Role)]), help="Only the rights of this role.")
def check(config: str | None, as_json: bool, role: str | None) -> int:
    """Name each server, whether it answers, each setting that is wrong, and each missing right.

    With --role it looks at the rights alone that the users of the settings have: those of a client,
    for example, with the client's own settings.

    \b
    Example:
      onceward-worker check --config payments.toml
      onceward-worker check --role client --config client.toml
    """
    if role is None:
        findings = check_all(settings_of(config))
    else:
        settings = settings_of(config, needs=OF_A_GROUP)
        findings = list(look_at_rights(settings, Role(role)))
    for finding in findings:
        click.echo(_as_json(finding) if as_json else _as_text(finding))
    worst = max((finding.exit_code for finding in findings), default=ExitCode.FINE)
    return int(worst)


@cli.command()
@config_option
@json_option
@click.option(
    "--role",
    type=click.Choice([*map(str, Role)]),
    default=str(Role.WORKER),
    show_default=True,
    help="Whether this user has the rights of this role.",
)
@click.option("--create", is_flag=True, help="Make the missing ones.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Of new topics of requests; default the broker's. Those beside one get as many as it has.",
)
@click.option("--replication", type=click.IntRange(min=1), help="The same for their replication.")
def topics(
    config: str | None,
    as_json: bool,
    role: str,
    create: bool,
    partitions: int | None,
    replication: int | None,
) -> int:
    """List the topics that the handlers need; with --create, make those that are missing.

    Each has its partitions, the settings that matter, and the rights of this user where Kafka says.

    It ends with 1 when one is missing, is not as it should be, or when this user lacks a right
    there that a worker needs: say with --role whose settings these are.

    \b
    Example:
      onceward-worker topics --config payments.toml
      onceward-worker topics --create --partitions 12 --config payments.toml
      onceward-worker topics --role operator --config operator.toml
    """
    if not create and (partitions or replication):
        raise click.UsageError("--partitions and --replication are of --create")
    settings = settings_of(config)
    handlers = load_registry(settings).handlers
    found = look_at_topics(
        settings,
        handlers,
        create=create,
        rights=None if role == Role.WORKER else rights_by_topic(Role(role), settings, handlers),
        partitions=partitions,
        replication=replication,
    )
    code = ExitCode.FINE
    for one in found:
        click.echo(topic_as_json(one) if as_json else topic_as_text(one))
        code = ExitCode.BAD_ANSWER if one.fault else code
    return int(code)


@cli.command("migrate")
@config_option
def migrate_command(config: str | None) -> None:
    """Make the journal's tables, or bring them to this version. Safe to repeat.

    Those of `[registry] url` as well, where it names a database of its own.

    \b
    Example:
      onceward-worker migrate --config payments.toml
    """
    settings = settings_of(config)
    migrated = migrate(settings.journal.url)
    click.echo(f"the journal has version {migrated.version}")
    if settings.registry.url not in ("", settings.journal.url):
        migrated = migrate(settings.registry.url)
        click.echo(f"the registry's tables have version {migrated.version}")


@cli.command()
@config_option
@json_option
@click.option(
    "--older-than-days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Keep what ended later than this.",
)
def prune(config: str | None, as_json: bool, older_than_days: float) -> None:
    """Remove ended requests from the journal, only such as are past their deadline.

    A removed request is forgotten: the same id is a new request from then on. A record whose
    request is forgotten does not run even if it is read again: that is IN_DOUBT, code FORGOTTEN.
    The journal keeps of each partition how far it was pruned. A resend behind that mark is judged
    by the record that it repeats; a duplicate counts as new when it is read again. A failure stays
    until its dead letter is written.

    \b
    Example:
      onceward-worker prune --older-than-days 30
    """
    requests, runs = _prune(settings_of(config), int(older_than_days * 86_400_000))
    if as_json:
        click.echo(json.dumps({"requests": requests, "runs": runs}))
    else:
        click.echo(
            f"removed {counted(requests, 'request')} and {counted(runs, 'run')} of their history"
        )


def _create_topics(settings: Settings) -> None:
    for one in look_at_topics(settings, load_registry(settings).handlers, create=True):
        if one.is_new:
            log.info("topic.created", topic=one.topic.name, partitions=one.partitions)


for command in (*PAUSING, workers, rights):
    cli.add_command(command)


def _prune(settings: Settings, retention_ms: int) -> tuple[int, int]:
    """Delete in small batches, so that workers never wait for long."""
    journal = Journal(settings.journal.url, group=settings.kafka.group, worker_id="")
    requests = runs = 0
    try:
        while True:
            pruned = journal.prune(retention_ms, PRUNE_BATCH, lettered=lettered_of(settings))
            requests += pruned.requests
            runs += pruned.runs
            if pruned.requests < PRUNE_BATCH:
                return requests, runs
    finally:
        journal.close()


def _as_json(finding: CheckResult) -> str:
    return json.dumps({"what": finding.what, "ok": finding.ok, "detail": finding.detail})


def _as_text(finding: CheckResult) -> str:
    if finding.ok:
        return f"{click.style('ok     ', fg='green')}{finding.what:10} {finding.detail}"
    mark = click.style("WRONG  ", fg="red")
    return f"{mark}{finding.what:10} {finding.detail} ({more(finding.entry)})"
